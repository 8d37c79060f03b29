# The netmod verbs beside verbs called directly, in each way that data moves, and ibv_rc_pingpong. That there are figures is what is looked at.
run() {
    netmod-perf "$@" --netmod verbs --rounds 2 --iters 10 --json >/tmp/said 2>&1 && grep -q '"ratio":' /tmp/said &&
        grep -q 'called directly' /tmp/said || { cat /tmp/said; echo "netmod-perf $*"; exit 1; }
}
run bw --bytes 64K --window 4
run bw --bytes 64K --window 4 --lmt get
run bw --bytes 64K --window 4 --lmt put
run bibw --bytes 64K --window 4
run rate
run lat --bytes 8
grep -q '"ibv_rc_pingpong":' /tmp/said || { cat /tmp/said; exit 1; }
cat /tmp/said
