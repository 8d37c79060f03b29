# Runs a Slurm in the folder $1 until its standard input ends, which is when the test program does,
# however that ends. It is the first process of a PID namespace, so that nothing outlives it.
dir=$1
munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" \
    --log-file="$dir/munged.log" --pid-file="$dir/munged.pid" --seed-file="$dir/munged.seed" \
    --origin=127.0.0.1 </dev/null >"$dir/munged.out" 2>&1 &
tries=0
until [ -S "$dir/munge.socket" ] || [ $tries -gt 200 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
slurmctld -D -f "$dir/slurm.conf" </dev/null >"$dir/slurmctld.out" 2>&1 &
for node in n1 n2; do
    slurmd -D -f "$dir/slurm.conf" -N $node </dev/null >"$dir/slurmd.$node.out" 2>&1 &
done
# Nobody writes: this returns at the end of the input.
read -r _
kill -KILL -1
rm -rf "$dir"
