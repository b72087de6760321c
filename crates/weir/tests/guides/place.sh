# Sourced by the script of a page, inside its namespaces: makes the place, and starts the servers that pages take for given.
# The script sets place, repository, addresses (further ones of this machine) and names (of this machine).
set -u
shopt -s expand_aliases

ip link set lo up
for address in $addresses; do ip address add "$address" dev lo; done

mount -t tmpfs tmpfs "$place/memory"
for folder in etc usr var; do
  mkdir "$place/memory/$folder" "$place/memory/$folder.work"
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$place/memory/$folder,workdir=$place/memory/$folder.work" "/$folder"
done
printf '127.0.0.1 localhost %s\n' "$names" >/etc/hosts
: >/etc/resolv.conf

export PATH="$place/bin:$repository/target/test-go/bin:$PATH" HOME="$place/work"
cd "$place/work" || exit 1

fail() { printf '%s\n' "$*" >&2; exit 1; }

# The exit status of a command is kept in a file, and for the next command of the page.
finish() {
  echo "$2" >"$place/outputs/$1.status"
  return "$2"
}

# Waits until a file has a line, or the process has ended.
await() {
  local process=$1 file=$2 line=$3
  until grep -qsx -e "$line" "$file"; do
    kill -0 "$process" 2>/dev/null || return 1
    sleep 0.02
  done
}

declare -A running=()

# Ends a program that runs in a terminal of its own.
end() {
  [ -n "${running[$1]:-}" ] || return 0
  kill -TERM "${running[$1]}" 2>/dev/null
  wait "${running[$1]}" 2>/dev/null
  unset "running[$1]"
}

# Runs the command on standard input as in a terminal of its own, and returns when it is ready. One that ran before is
# ended first, because the ports are the same.
terminal() {
  local number=$1 command name line=ready
  command=$(cat)
  case "$command" in *weir\ origin*) name=origin ;; *) name=gateway ;; esac
  case "$command" in *try.sh*) line='Ctrl-C stops both.*' ;; esac
  end "$name"
  # Bash takes the place of its last command, so that the signal reaches the program.
  bash -c "$command" >"$place/outputs/$number.out" 2>"$place/outputs/$number.err" </dev/null &
  running[$name]=$!
  ln -sf "$number.err" "$place/outputs/$name.log"
  await "${running[$name]}" "$place/outputs/$number.out" "$line"
}

# An echo origin at an address.
origin() {
  weir origin --listen "$1" >"$place/outputs/origin-$1" 2>&1 </dev/null &
  await $! "$place/outputs/origin-$1" ready || fail "no origin at $1"
}

# A gateway at the usual ports on its store in ./weir-data, and the variables of the guides.
gateway() {
  terminal gateway <<<'weir run' || fail "$(cat "$place/outputs/gateway.log")"
  key=$(cat weir-data/admin.key)
  export key
}
