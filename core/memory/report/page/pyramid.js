// Finds the index of the maximum and minimum of a long array between any two indices. The indices of the extremes of
// each 8, 64, 512 ... values are stored, so that a pixel of a million events costs as much as one of ten.

const FAN = 8;

class Pyramid {
  constructor(values) {
    this.values = values;
    this.high = this.build((a, b) => values[b] > values[a]);
    this.low = this.build((a, b) => values[b] < values[a]);
  }

  build(beats) {
    const levels = [];
    let count = this.values.length;
    let below = null;
    while (count > FAN) {
      const size = Math.ceil(count / FAN);
      const level = new Uint32Array(size);
      for (let g = 0; g < size; ++g) {
        let best = below ? below[g * FAN] : g * FAN;
        for (let c = g * FAN + 1; c < Math.min(count, (g + 1) * FAN); ++c) {
          const candidate = below ? below[c] : c;
          if (beats(best, candidate)) best = candidate;
        }
        level[g] = best;
      }
      levels.push(level);
      below = level;
      count = size;
    }
    return { levels, beats };
  }

  // The first index of the maximum in [from, to].
  highest(from, to) { return this.search(this.high, from, to); }
  lowest(from, to) { return this.search(this.low, from, to); }

  search({ levels, beats }, from, to) {
    let best = from;
    let at = from;
    while (at <= to) {
      // The largest group that begins at `at` and ends by `to`.
      let height = 0;
      let size = 1;
      while (height < levels.length && at % (size * FAN) === 0 && at + size * FAN - 1 <= to) {
        size *= FAN;
        ++height;
      }
      const candidate = height ? levels[height - 1][at / size] : at;
      if (beats(best, candidate)) best = candidate;
      at += size;
    }
    return best;
  }
}
