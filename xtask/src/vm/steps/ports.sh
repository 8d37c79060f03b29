# The port goes down and comes up again; the address behind its GID goes and comes back.
export NETMOD=verbs NETMOD_TEST_JOB_LIMIT=100 NETMOD_LOG=netmod_verbs=info
ip() { /usr/bin/ip "$@"; }
fail() { cat /tmp/said; echo "$*"; exit 1; }
says() { grep -q "$1" /tmp/said || fail "nobody says: $1"; }
job() {
    nmrun -n 2 netmod-job unplugged "$@" >/tmp/said 2>&1 || fail "unplugged $*"
    [ $(grep -c ' ok$' /tmp/said) = 2 ] || fail "unplugged $*"
}

export NETMOD_TEST_UNPLUG='/usr/bin/ip link set dummy0 down' NETMOD_TEST_PLUG='/usr/bin/ip link set dummy0 up'
job 700 1000
says "the port's link is gone"
says "the port's link is there again"
says "lost: .*rxe0:1: .*this host's port is not active (Down)"
echo 'port: ok'

export NETMOD_TEST_UNPLUG='/usr/bin/ip address del 10.0.0.1/24 dev dummy0'
export NETMOD_TEST_PLUG='/usr/bin/ip address add 10.0.0.1/24 dev dummy0'
job 0 1000
says 'the GID that packets come from has gone'
says 'the GID that packets come from is there again'
says "lost: .*rxe0:1: .*has no GID ::ffff:10.0.0.1 any more"
echo 'GID: ok'
