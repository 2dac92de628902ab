#!/bin/sh
# Makes the base images of deploy/Dockerfile out of Debian's packages and Node.js from npm, where no image registry can be
# reached. Needs root, buildah and debootstrap. Usage: base-images.sh BUILD_IMAGE RUN_IMAGE
set -eu
build=$1 run=$2
case $(uname -m) in x86_64) arch=x64 ;; aarch64) arch=arm64 ;; *) echo "no Node.js for $(uname -m)" && exit 1 ;; esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' | awk '$1 == "bookworm" { print $2; exit }')
debootstrap --variant=minbase --include=ca-certificates,libssl3,netbase,tzdata bookworm root "$mirror" >log 2>&1 || { tail log && exit 1; }
# The authorities that this machine trusts, because a package registry may be behind one of them.
cp /etc/ssl/certs/ca-certificates.crt root/etc/ssl/certs/

mkdir -p run/tmp run/home/nonroot
for package in base-files libc6 libssl3 netbase tzdata; do
  dpkg-deb -x "$(find root/var/cache/apt/archives -name "${package}_*.deb")" run
done
chmod 1777 run/tmp
mkdir -p run/etc/ssl/certs
cp root/etc/ssl/certs/ca-certificates.crt run/etc/ssl/certs/
echo 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' >run/etc/passwd
echo 'nonroot:x:65532:' >run/etc/group

# A test starts this without the settings of the user, and npm trusts only the authorities that a variable names.
NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \
  npm install --loglevel=error --no-audit --no-fund --prefix npm "node-linux-$arch@24" npm@11 >/dev/null
cp "npm/node_modules/node-linux-$arch/bin/node" root/usr/local/bin/
mkdir -p root/usr/local/lib/node_modules
cp -a npm/node_modules/npm root/usr/local/lib/node_modules/
ln -s ../lib/node_modules/npm/bin/npm-cli.js root/usr/local/bin/npm

commit() {
  container=$(buildah from scratch)
  buildah copy --quiet "$container" "$1" / >/dev/null
  buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
  [ "$1" = run ] || buildah config --env NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt "$container"
  buildah commit --quiet --rm "$container" "$2" >/dev/null
}
commit root "$build"
commit run "$run"
