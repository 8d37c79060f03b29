# Who waits for a rank that was killed is told in the time that is set, also if the process manager is not asked; the others talk all the
# while.
export NETMOD=verbs NETMOD_TEST_JOB_LIMIT=60 NETMOD_VERBS_DETECT=2s NETMOD_FAILURE_CHECK=0s
for ranks in 4 8; do
    nmrun --no-kill -n $ranks netmod-job widowed 1 15 >/tmp/said 2>&1
    [ $(grep -c 'told after .*as its host says' /tmp/said) = $((ranks - 1)) ] &&
        [ $(grep -c ' ok$' /tmp/said) = $((ranks - 1)) ] || { cat /tmp/said; echo "$ranks ranks"; exit 1; }
    grep 'told after' /tmp/said
done
