# Run by test_images.py in a mount namespace of its own: VENV CACHE FLAG... Prints "healthy" when the service answers.
# SOURCE: a checkout that the environment runs, where it does not hold the service itself.
set -euo pipefail
venv=$1
cache=$2
shift 2
chown -R 10001:10001 "$cache"
# The way to the environment must be open to another user, as it is in an image.
for folder in "$venv" "$cache"; do
    while [ "$folder" != / ]; do chmod o+x "$folder"; folder=$(dirname "$folder"); done
done
mount --make-rprivate /
if [ -n "${SOURCE:-}" ]; then
    mount --bind "$SOURCE" /media
    mount -o remount,bind,ro /media
fi
# The interpreter behind the environment may lie in root's home, which another user may not enter: show that part alone.
prefix=$(dirname "$(dirname "$(readlink -f "$venv/bin/python")")")
case $prefix in
/root/*)
    mount --bind "$prefix" /srv
    mount -t tmpfs -o mode=0755 tmpfs /root
    mkdir -p "$prefix"
    mount --bind /srv "$prefix"
    mount -o remount,bind,ro "$prefix"
    mount -o remount,ro /root
    ;;
esac
mount --bind "$venv" /opt
mount --bind "$cache" /mnt
mount -t tmpfs -o size=1g tmpfs /tmp
mount -o remount,bind,ro /opt
mount -o remount,bind,ro /
if touch /etc/probe 2>/dev/null; then echo "the root is writable" >&2; exit 1; fi
port=18$((RANDOM % 900 + 100))
as_user=(
    setpriv --reuid 10001 --regid 10001 --clear-groups env --ignore-environment
    PATH=/opt/bin:/usr/bin:/bin HOME=/mnt XDG_CACHE_HOME=/mnt PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/media
    VOICEPACE_CACHE_DIR=/mnt/voicepace
)
ready="import urllib.request as r; r.urlopen('http://127.0.0.1:$port/readyz', timeout=2)"
"${as_user[@]}" python /opt/bin/voicepace serve --port "$port" "$@" >/tmp/out 2>&1 &
service=$!
for _ in $(seq 240); do
    if "${as_user[@]}" python -c "$ready" 2>/dev/null; then
        kill "$service"
        wait "$service" || { cat /tmp/out >&2; exit 1; }
        echo healthy
        exit 0
    fi
    kill -0 "$service" 2>/dev/null || break
    sleep 1
done
cat /tmp/out >&2
exit 1
