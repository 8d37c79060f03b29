# No software device has XRC: who asks for it is told so, and uses reliable connections.
export NETMOD=verbs NETMOD_TEST_JOB_LIMIT=60 NETMOD_VERBS_XRC=yes NETMOD_LOG=netmod_verbs=info
for job in '4 alltoall 100000' '3 random 2 4'; do
    set -- $job; ranks=$1; shift
    nmrun -n $ranks netmod-job "$@" >/tmp/said 2>&1 || { cat /tmp/said; echo "$job"; exit 1; }
    [ $(grep -c 'no XRC: reliable connections are used.*rxe0:1.*ibv_open_xrcd' /tmp/said) = $ranks ] || { cat /tmp/said; echo "$job"; exit 1; }
done
grep -m 1 'no XRC' /tmp/said
