# Few receive buffers and many senders: messages wait for them, and all arrive. Then a limit of locked memory, and forks.
export NETMOD=verbs NETMOD_TEST_JOB_LIMIT=100
counters=/sys/class/infiniband/rxe0/ports/1/hw_counters
run() {
    nmrun "$@" >/tmp/said 2>&1 || { cat /tmp/said; echo "$*"; exit 1; }
}

before=$(cat $counters/rcvd_rnr_err)
exceeded=$(cat $counters/retry_rnr_exceeded_err)
NETMOD_VERBS_RX_MEMORY=64K NETMOD_LMT=null run -n 8 netmod-job flood 200 1500
NETMOD_VERBS_RX_MEMORY=64K NETMOD_LMT=null run -n 6 netmod-job many-to-one 30
after=$(cat $counters/rcvd_rnr_err)
exceeded=$(($(cat $counters/retry_rnr_exceeded_err) - exceeded))
echo "receivers without buffers: $((after - before)) times; given up: $exceeded times"
[ $((after - before)) -gt 0 ] && [ $exceeded = 0 ] || exit 1

chmod 666 /dev/infiniband/*
if (ulimit -l 64; /usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups nmrun -n 2 netmod-job ring 5) >/tmp/said 2>&1; then
    cat /tmp/said; echo 'a limit of 64 KiB was none'; exit 1
fi
for text in 'rxe0:1: ibv_reg_mr' 'limit of locked memory of 64 KiB' 'ulimit -l unlimited' LimitMEMLOCK PropagateResourceLimitsExcept=MEMLOCK; do
    grep -q "$text" /tmp/said || { cat /tmp/said; echo "nobody says: $text"; exit 1; }
done
grep -m 1 'ulimit -l' /tmp/said

for mode in null put get; do
    NETMOD_LMT=$mode run -n 3 netmod-job forks 3 300000
done
