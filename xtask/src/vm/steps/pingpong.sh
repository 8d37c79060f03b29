# The library's own program, for comparison.
ibv_rc_pingpong -d rxe0 -g 1 -n 500 >/tmp/server &
tries=0
until grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; do
    [ $((tries += 1)) -lt 300 ] || exit 1
    sleep 0.1
done
ibv_rc_pingpong -d rxe0 -g 1 -n 500 127.0.0.1 && wait $!
