# shellcheck shell=bash
# Small MNIST files, for the examples that train on them. Sourced before example.sh, which has
# what they are made with.

big_endian() { for ((shift = 24; shift >= 0; shift -= 8)); do echo $(($1 >> shift & 255)); done; }
# split NAME COUNT: images of noise, and labels
split() {
  { printf '\0\0\x08\x03'; { big_endian "$2"; big_endian 28; big_endian 28; } | bytes; head -c $(($2 * 784)) /dev/urandom; } |
    gzip > "$1-images-idx3-ubyte.gz"
  { printf '\0\0\x08\x01'; { big_endian "$2"; numbers "$2" | awk '{ print $1 % 10 }'; } | bytes; } |
    gzip > "$1-labels-idx1-ubyte.gz"
}
small_mnist() {
  split train 256
  split t10k 64
}
