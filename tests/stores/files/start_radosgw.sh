#!/bin/bash
# start_radosgw.sh ROOT FOLDER MONITOR_PORT GATEWAY_PORT: a monitor, a store in memory and the gateway of Ceph,
# from packages unpacked below ROOT, with all files in FOLDER. Says "user made" when it can be used; ends what it
# started when it is terminated.
set -e
root=$1 folder=$2 monitor=$3 gateway=$4
libraries=$root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/ceph:$root/lib/x86_64-linux-gnu
export PATH=$root/usr/bin:$PATH PYTHONPATH=$root/usr/lib/python3/dist-packages
pids=()
trap 'kill "${pids[@]}" 2>/dev/null; wait; exit 0' TERM INT
cd "$folder"
mkdir -p mon.a osd.0
cat > ceph.conf <<END
[global]
fsid = 11111111-2222-3333-4444-555555555555
mon_initial_members = a
mon_host = v1:127.0.0.1:$monitor/0
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
run_dir = $folder
admin_socket = $folder/\$name.asok
log_file = $folder/\$name.log
pid_file = $folder/\$name.pid
mon_data = $folder/mon.a
osd_data = $folder/osd.0
keyring = $folder/keyring
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
ms_bind_msgr2 = false
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = 2147483648
osd_memory_target = 536870912
osd_class_dir = $libraries/rados-classes
erasure_code_dir = $libraries/ceph/erasure-code
plugin_dir = $libraries/ceph
mon_allow_pool_size_one = true
[mon.a]
host = localhost
[osd.0]
host = localhost
[client.rgw]
# Without tcp_nodelay each small answer waits for 40 ms.
rgw_frontends = beast endpoint=127.0.0.1:$gateway tcp_nodelay=1
rgw_thread_pool_size = 32
rgw_dns_name = localhost
END
ceph() { timeout 60 python3 "$root/usr/bin/ceph" -c ceph.conf "$@"; }
monmaptool --create --clobber --addv a "[v1:127.0.0.1:$monitor]" --fsid 11111111-2222-3333-4444-555555555555 monmap
ceph-authtool --create-keyring keyring --gen-key -n mon. --cap mon 'allow *'
ceph-authtool keyring --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
ceph-mon -c ceph.conf --mkfs -i a --monmap monmap --keyring keyring
ceph-mon -c ceph.conf -f -i a & pids+=($!)
id=$(cat /proc/sys/kernel/random/uuid)
ceph osd new "$id" 0
ceph-osd -c ceph.conf -i 0 --mkfs --osd-uuid "$id"
ceph-osd -c ceph.conf -f -i 0 & pids+=($!)
until ceph osd stat | grep -q '1 up'; do sleep 0.2; done
radosgw -c ceph.conf -n client.rgw -f --no-mon-config & pids+=($!)
until (exec 3<>"/dev/tcp/127.0.0.1/$gateway") 2>/dev/null; do sleep 0.1; done
radosgw-admin -c ceph.conf user create --uid=t --display-name=t --access-key=test --secret-key=testtest >/dev/null
echo user made
wait
