# shellcheck shell=bash
# Small MNIST files, for the examples that train on them. Sourced before example.sh, which has
# what they are made with.

big_endian() { for ((shift = 24; shift >= 0; shift -= 8)); do echo $(($1 >> shift & 255)); done; }
image_header() { printf '\0\0\x08\x03' && { big_endian "$1" && big_endian 28 && big_endian 28; } | bytes; }
label_header() { printf '\0\0\x08\x01' && big_endian "$1" | bytes; }
# split NAME COUNT: images of noise, and labels
split() {
  { image_header "$2" && head -c $(($2 * 784)) /dev/urandom; } | gzip > "$1-images-idx3-ubyte.gz"
  { label_header "$2" && numbers "$2" | awk '{ print $1 % 10 }' | bytes; } | gzip > "$1-labels-idx1-ubyte.gz"
}
small_mnist() {
  split train 256
  split t10k 64
}
# clear_split NAME COUNT: images with a bright band, whose place is the label. Networks learn them in a few steps.
clear_split() {
  local bands='BEGIN { for (i = 0; i < n; ++i) for (p = 0; p < 784; ++p) printf "%c", int(p / 78) == i % 10 ? 255 : 1 }'
  { image_header "$2" && LC_ALL=C awk -v n="$2" "$bands"; } | gzip > "$1-images-idx3-ubyte.gz"
  { label_header "$2" && seq 0 $(($2 - 1)) | awk '{ print $1 % 10 }' | bytes; } | gzip > "$1-labels-idx1-ubyte.gz"
}
clear_mnist() {
  clear_split train 256
  clear_split t10k 64
}
