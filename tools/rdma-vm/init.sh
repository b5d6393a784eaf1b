#!/bin/sh
# The first process of the virtual machine. Brings up the devices, runs the command that the host
# packed into /run/command, and reports its exit code on the second serial line, which carries the
# command's output and nothing of the kernel's.

# The shell runs its own `ip`, which does not know veth pairs, unless the path is given.

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t devpts pts /dev/pts
exec </dev/null >/dev/ttyS1 2>&1
stty -F /dev/ttyS1 -opost

finish() {
	echo "lycaon-vm: exit $1"
	sync
	poweroff -f
}

broken() {
	echo "lycaon-vm: broken: $*"
	finish 125
}

export PATH=/bin
. /run/settings

while read -r module; do
	insmod "$module" || broken "insmod $module"
done </etc/modules

# The address of an interface has to be usable at once: no search for duplicates.
echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad
/bin/ip link set lo up || broken "no loopback"

# Both ends of a cable are on this machine. Where they have IPv4 addresses, rules send what goes
# from one to the other through the cable; they have to come before the rule for addresses of our
# own, and what then arrives from such an address is welcome.
/bin/ip rule add pref 100 lookup local && /bin/ip rule del pref 0 || broken "rules for addresses"
echo 1 >/proc/sys/net/ipv4/conf/default/accept_local
echo 0 >/proc/sys/net/ipv4/conf/default/rp_filter
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter

# One cable: a pair of interfaces, each the carrier of a device of its own.
cable=0
while [ "$cable" -lt "$CABLES" ]; do
	/bin/ip link add "c${cable}a" mtu "$MTU" type veth peer name "c${cable}b" mtu "$MTU" || broken "cable $cable"
	for end in "c${cable}a" "c${cable}b"; do
		/bin/ip link set "$end" up || broken "interface $end"
		rdma link add "rxe_$end" type rxe netdev "$end" || broken "device rxe_$end"
	done
	cable=$((cable + 1))
done

# Sending to an address that is still tentative fails.
tries=0
while /bin/ip -6 addr show | grep -q tentative; do
	tries=$((tries + 1))
	[ "$tries" -lt 100 ] || broken "addresses stay tentative"
	sleep 0.1
done
tries=0
while [ "$(rdma link show | grep -c 'state ACTIVE')" -ne $((2 * CABLES)) ]; do
	tries=$((tries + 1))
	[ "$tries" -lt 100 ] || broken "devices are not active: $(rdma link show)"
	sleep 0.1
done

echo "lycaon-vm: ready after $(cut -d' ' -f1 /proc/uptime) s"
/bin/sh /run/command
finish $?
