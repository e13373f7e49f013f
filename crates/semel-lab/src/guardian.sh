# Keeps one server for a process that may die at any time. The words on its standard input are its
# orders; when they end, so do the server and its folder.
# Arguments: the folder, the signal that stops the server at once, the server's command line.
folder=$1 last=$2
shift 2
pid=

# A stopped process hears no signal but CONT.
stop() {
    [ -n "$pid" ] || return 0
    kill -"$1" "$pid" 2>/dev/null
    kill -CONT "$pid" 2>/dev/null
    wait "$pid"
    pid=
}

while read -r order; do
    case $order in
    start)
        "$@" </dev/null >>"$folder/log" 2>&1 &
        pid=$!
        echo "$pid"
        ;;
    *)
        stop "$order"
        echo stopped
        ;;
    esac
done
stop "$last"
rm -rf "$folder"
