# Jobs of several processes over verbs, in each mode of large messages, and ranks that die.
export NETMOD=verbs NETMOD_TEST_JOB_LIMIT=100
for mode in null get put; do
    export NETMOD_LMT=$mode
    for job in '2 span 1000000' '3 alltoall' '3 random 1 6' '4 many-to-one 50' '8 ring 20' '3 reuse 5' '3 flood 300'; do
        set -- $job; ranks=$1; shift
        nmrun -n $ranks netmod-job "$@" >/tmp/said 2>&1 || { cat /tmp/said; echo "$mode: $job"; exit 1; }
    done
    for job in '3 die' '3 kill 2 1 1' '3 kill 5 1 2'; do
        set -- $job; ranks=$1; shift
        nmrun --no-kill -n $ranks netmod-job "$@" >/tmp/said 2>&1
        [ $(grep -c ' ok$' /tmp/said) = $((ranks - 1)) ] || { cat /tmp/said; echo "$mode: $job"; exit 1; }
    done
done
