# OCI images from directories, by umoci: no daemon, no root, and the same image from the same directory.
# shellcheck shell=bash

# make_image LAYOUT TAG DIRECTORY ARCHITECTURE [OPTION OF umoci config...]: one layer with what is in the directory.  Wants
# SOURCE_DATE_EPOCH.
make_image() {
	local layout=$1 tag=$2 directory=$3 architecture=$4 layer time
	shift 4
	time=$(date --utc --date="@$SOURCE_DATE_EPOCH" +%FT%TZ)
	layer=$(mktemp --suffix=.tar)
	tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw --mtime="@$SOURCE_DATE_EPOCH" \
		--format=gnu --directory="$directory" . >"$layer"
	[ -d "$layout" ] || umoci init --layout "$layout"
	umoci new --image "$layout:$tag"
	umoci raw add-layer --history.created "$time" --history.created_by "make images" --image "$layout:$tag" "$layer"
	umoci config --no-history --image "$layout:$tag" --created "$time" --os linux --architecture "$architecture" \
		--config.label org.opencontainers.image.licenses=PostgreSQL "$@"
	# What an image was before each step
	umoci gc --layout "$layout"
	rm -f "$layer"
}

# blob LAYOUT DIGEST: its file, if it is what its name says
blob() {
	local file=$1/blobs/${2/://}
	echo "${2#*:}  $file" | sha256sum --check --quiet >&2 && echo "$file"
}

# unpack_image LAYOUT TAG DIRECTORY: its layers, by the specification alone
unpack_image() {
	local layout=$1 tag=$2 directory=$3 digest manifest layer file
	digest=$(jq --raw-output --arg tag "$tag" \
		'.manifests[] | select(.annotations["org.opencontainers.image.ref.name"] == $tag) | .digest' "$layout/index.json")
	# Each is checked: this also runs where set -e has no effect
	manifest=$(blob "$layout" "$digest") || return
	mkdir -p "$directory"
	blob "$layout" "$(jq --raw-output .config.digest "$manifest")" >/dev/null || return
	for layer in $(jq --raw-output '.layers[].digest' "$manifest"); do
		file=$(blob "$layout" "$layer") || return
		tar --extract --gzip --no-same-owner --directory="$directory" --file="$file" || return
	done
}
