# Signatures of a release, by a key of gpg's.
# shellcheck shell=bash

# sign KEY OPTION... FILE
sign() {
	local key=$1
	shift
	gpg --batch --yes --local-user "$key" "$@"
}

# sign_repository KEY DIRECTORY: apt takes InRelease, or Release with Release.gpg beside it; the public key is for users
sign_repository() {
	local key=$1 release=$2/dists/stable/Release
	sign "$key" --clearsign --output "${release%/*}/InRelease" "$release"
	sign "$key" --detach-sign --armor --output "$release.gpg" "$release"
	gpg --batch --export "$key" >"$2/pgcalm.gpg"
}
