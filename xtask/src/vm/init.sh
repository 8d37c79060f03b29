#!/bin/busybox sh
# The first process of the virtual machine: makes one RDMA device, runs /job, and tells the second serial line how that ended.
PATH=/usr/bin:/usr/sbin HOME=/root
export PATH HOME
for fs in proc:/proc sysfs:/sys devtmpfs:/dev; do /bin/busybox mount -t "${fs%:*}" "${fs%:*}" "${fs#*:}"; done
/bin/busybox mkdir -p /dev/shm
for at in /dev/shm /tmp /run; do /bin/busybox mount -t tmpfs tmpfs "$at"; done
exec </dev/ttyS0 >/dev/ttyS0 2>&1
/bin/busybox --install -s

end() {
    # The end of the output leaves when its line is closed.
    exec </dev/null >/dev/null 2>&1
    echo "$*" >/dev/ttyS1
    poweroff -f
}
need() { "$@" || end "setup $*"; }

while read -r module; do need insmod "/modules/$module.ko"; done </modules/order
need ip link set lo up
# The module has made dummy0. 4096 bytes a packet want a little more than that. The shell has an `ip` of its own, which cannot do all of this.
need /usr/bin/ip address add 10.0.0.1/24 dev dummy0
need /usr/bin/ip link set dummy0 mtu 4200 up
need /usr/bin/rdma link add rxe0 type rxe netdev dummy0
port=/sys/class/infiniband/rxe0/ports/1
tries=0
# The second GID is that of the IPv4 address (RoCE v2).
until grep -q ACTIVE $port/state && grep -q ffff:0a00:0001 $port/gids/1; do
    [ $((tries += 1)) -lt 100 ] || end "setup the device's port, which does not come up"
    sleep 0.1
done
read -r up _ </proc/uptime
echo "vm: Linux $(uname -r), device rxe0, after $up s"
sh /job
status=$?
if [ -e /keep ]; then
    echo "vm: the job has ended with status $status; this shell is the machine's, exit ends it"
    setsid sh -c 'exec sh </dev/ttyS0 >/dev/ttyS0 2>&1'
fi
end "exit $status"
