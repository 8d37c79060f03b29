# Which GID is taken, and why; that another one can be had; and that one which does not exist is an error.
export NETMOD=verbs
ip() { /usr/bin/ip "$@"; }
said() {
    grep -q "$1" /tmp/said || { cat /tmp/said; echo "not said: $1"; exit 1; }
}
info() { NETMOD_VERBS_GID=$1 netmod-perf info >/tmp/said 2>&1; }
indices() { # index of a GID in the table
    for i in 0 1 2 3 4 5 6 7; do
        grep -q "$1" /sys/class/infiniband/rxe0/ports/1/gids/$i && echo $i
    done
}

ip address add 10.0.7.1/24 dev dummy0
ip address add 2001:db8::7/64 dev dummy0 nodad
tries=0
until [ "$(indices 2001:0db8)" ] && [ "$(indices 0a00:0701)" ]; do
    [ $((tries += 1)) -lt 100 ] || { echo 'the addresses have no GIDs'; exit 1; }
    sleep 0.1
done

info ''
said 'rxe0:1 (RoCE v2 over IPv4).*: ::ffff:10.0.'
info "$(indices 2001:0db8)"
said 'rxe0:1 (NETMOD_VERBS_GID).*: 2001:db8::7'
info "$(indices 0a00:0701)"
said 'rxe0:1 (NETMOD_VERBS_GID).*: ::ffff:10.0.7.1'
info 0
said 'rxe0:1 (NETMOD_VERBS_GID).*: fe80::'
info 9
said 'its table has no GID at index 9 (NETMOD_VERBS_GID); there are 0 (fe80::'
info v1
said 'no GID of the version that NETMOD_VERBS_GID=v1 asks for'
info nonsense
said 'NETMOD_VERBS_GID=nonsense is neither an index of the table nor v1 or v2'

for gid in '' v2 0 "$(indices 0a00:0701)" "$(indices 2001:0db8)"; do
    NETMOD_VERBS_GID=$gid nmrun -n 2 netmod-job alltoall 50000 >/tmp/said 2>&1 || { cat /tmp/said; echo "GID $gid"; exit 1; }
done
if NETMOD_VERBS_GID=9 nmrun -n 2 netmod-job ring 2 >/tmp/said 2>&1; then exit 1; fi
said 'its table has no GID at index 9'

# Without an IPv4 address it is the IPv6 one.
ip address del 10.0.7.1/24 dev dummy0
ip address del 10.0.0.1/24 dev dummy0
tries=0
while [ "$(indices ffff:0a00)" ]; do
    [ $((tries += 1)) -lt 100 ] || { echo 'GIDs outlive their addresses'; exit 1; }
    sleep 0.1
done
info ''
said 'rxe0:1 (RoCE v2 over IPv6).*: 2001:db8::7'
ip address del 2001:db8::7/64 dev dummy0
ip address add 10.0.0.1/24 dev dummy0
tries=0
until [ "$(indices 0a00:0001)" ]; do
    [ $((tries += 1)) -lt 100 ] || { echo 'the address has no GID'; exit 1; }
    sleep 0.1
done
