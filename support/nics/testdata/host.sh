#!/bin/sh
# The host of host.hex, as made and recorded by: unshare -n sh host.sh record >host.hex
set -e
ip link set lo up
quiet() { ip link set "$1" addrgenmode none; ip link set "$1" up; }
# Another host, at the other ends of e0 to e3.
unshare -n sleep 60 &
other=$!
sleep 0.2
for n in 0 1 2 3; do
    ip link add e$n index $((100 + n)) type veth peer name p$n netns $other
    nsenter -t $other -n ip link set p$n up
    quiet e$n
done
ip addr add 10.1.0.1/24 dev e0
ip addr add 10.1.0.3/24 dev e0
ip addr add fd00:1::1/64 dev e0 nodad
ip addr add 10.1.0.2/24 dev e1
ip addr add fd00:1::2/64 dev e1 nodad
ip addr add 10.128.0.2/32 dev e2
ip addr add 10.3.0.1/24 dev e3
nsenter -t $other -n ip link set p3 down
# docker0 with a container.
ip link add docker0 index 110 type bridge
quiet docker0
ip addr add 172.17.0.1/16 dev docker0
ip link add c0 index 111 type veth peer name eth0 netns $other
ip link set c0 master docker0
quiet c0
nsenter -t $other -n ip link set eth0 up
# Others.
ip link add mv0 index 112 link e1 type macvlan
quiet mv0
ip addr add 10.1.0.9/24 dev mv0
ip link add link docker0 name mv1 index 113 type macvlan
ip tuntap add tn0 mode tun
quiet tn0
ip addr add 10.9.0.1 peer 10.9.0.2/32 dev tn0
ip tuntap add tp0 mode tap
ip link add vx0 index 114 type vxlan id 4 dstport 4789 dev e0
ip link add d0 index 115 type ifb
ip link add b0 index 116 type veth peer name b1 index 117
quiet b0
# Routes.
ip route add 10.128.0.1/32 dev e2
ip route add 10.128.0.0/20 via 10.128.0.1 dev e2
ip route add default via 10.1.0.254 dev e0
ip route add 10.20.0.0/16 via inet6 fd00:1::254 dev e0
ip route add blackhole 10.21.0.0/16
ip route add unreachable 10.22.0.0/16
ip route add prohibit 10.23.0.0/16
ip route add 10.24.0.0/16 nexthop via 10.1.0.253 dev e0 nexthop dev e1
ip nexthop add id 7 via 10.1.0.252 dev e0
ip route add 10.25.0.0/16 nhid 7
ip rule add from 10.1.0.2 lookup 100
ip route add 10.26.0.0/16 via 10.1.0.251 dev e1 table 100
ip -6 route add default via fd00:1::254 dev e1
ip -6 route add fd00:24::/64 nexthop via fd00:1::253 dev e0 nexthop via fd00:1::252 dev e1
ip -6 route add blackhole fd00:21::/64
ip -6 route add fd00:27::/64 via fd00:1::254 dev e0
ip nexthop add id 8 via fd00:1::252 dev e0
ip -6 route add fd00:25::/64 nhid 8
sysctl -qw net.ipv4.nexthop_compat_mode=0
sleep 0.3
"$1" e0 10.1.0.1 10.1.0.77 e1 10.1.0.2 10.1.0.77 e0 10.1.0.1 10.1.0.3 e0 10.1.0.1 10.1.0.255 \
    e2 10.128.0.2 10.128.0.1 e2 10.128.0.2 10.128.0.3 e2 10.128.0.2 10.1.0.77 \
    e0 10.1.0.1 192.168.0.1 e1 10.1.0.2 192.168.0.1 e0 10.1.0.1 10.20.0.1 e0 10.1.0.1 10.21.0.1 \
    e0 10.1.0.1 10.22.0.1 e0 10.1.0.1 10.23.0.1 e0 10.1.0.1 10.24.0.1 e1 10.1.0.2 10.24.0.1 \
    e0 10.1.0.1 10.25.0.1 e1 10.1.0.2 10.26.0.1 e0 10.1.0.1 10.26.0.1 e3 10.3.0.1 10.3.0.2 \
    e0 fd00:1::1 fd00:1::77 e1 fd00:1::2 fd00:1::77 e0 fd00:1::1 fd00:1::2 e1 fd00:1::2 2001:db8::1 \
    e0 fd00:1::1 2001:db8::1 e0 fd00:1::1 fd00:24::1 e1 fd00:1::2 fd00:24::1 e0 fd00:1::1 fd00:21::1 \
    e0 fd00:1::1 fd00:27::1 e1 fd00:1::2 fd00:27::1 e0 fd00:1::1 fd00:25::1 tn0 10.9.0.1 10.9.0.2 \
    docker0 172.17.0.1 172.17.0.2
kill $other
