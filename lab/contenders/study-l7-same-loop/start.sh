#!/usr/bin/env bash
# The forwarder of the laboratory itself ($WEIR lab forwarder); all forms of the study are this program. LAYER, MODEL and
# BUFFERS are its options.
PROGRAM=study
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

contender_install() {
  needs WEIR
  [ -x "$WEIR" ] || fail "$WEIR is no program"
}

contender_version() { needs WEIR; echo "forwarder of $("$WEIR" version | head -n 1)"; }

contender_configure() { needs WEIR; }

contender_run() {
  exec "$WEIR" lab forwarder --layer "${LAYER:-7}" --model "${MODEL:-same-loop}" --buffers "${BUFFERS:-pooled}" \
    --workers "$WORKERS" --listen "$LISTEN" --origin "$ORIGIN"
}

main "$@"
