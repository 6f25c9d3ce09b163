// Samples tokens. A block of 512 threads samples from a row of logits like `sample::draw`: weights are float
// exponentials of (logit − largest) · (1 / temperature). Their sums are double, of sums of four in float. As
// these differ from the reference's by rounding, a draw may give the other token if its target is within
// rounding of the border between two.

struct Draw {
    u64 seed, index;
    float temperature, top_p, min_p;
    u32 top_k;
    // The tokens suppressed[first_suppressed..][..suppressed_count] cannot be sampled.
    u32 first_suppressed, suppressed_count;
};

static const u32 SAMPLE_THREADS = 512, SAMPLE_WARPS = SAMPLE_THREADS / WARP;

// Maximum number of tokens that are sorted after cut-offs.
static const u32 MOST_SORTED = 1024;

// Philox4x32-10 (Salmon et al. 2011) with the seed as its key: 53 bits of it, strictly between 0 and 1.
static __device__ __forceinline__ double uniform(u64 seed, u64 index) {
    u32 a = (u32)index, b = (u32)(index >> 32), c = 0, d = 0, low_key = (u32)seed,
        high_key = (u32)(seed >> 32);
    for (u32 round = 0; round < 10; round++) {
        u64 low = (u64)a * 0xD2511F53u, high = (u64)c * 0xCD9E8D57u;
        a = (u32)(high >> 32) ^ b ^ low_key;
        b = (u32)high;
        c = (u32)(low >> 32) ^ d ^ high_key;
        d = (u32)low;
        low_key += 0x9E3779B9u;
        high_key += 0xBB67AE85u;
    }
    u64 bits = ((u64)a << 32 | b) >> 11;
    return ((double)bits + 0.5) / 9007199254740992.0;
}

// Bits in the order of floats, with -0 below 0.
static __device__ __forceinline__ u32 ordered(float x) {
    u32 bits = __float_as_uint(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// A row of logits, and a sum for each warp's part of it.
struct Logits {
    const float *row;
    u32 n;
    double *sums;
};

// A warp's part of a range.
struct WarpPart {
    u32 length, from, to;

    __device__ __forceinline__ WarpPart(u32 start, u32 end) {
        length = (end - start + SAMPLE_WARPS - 1) / SAMPLE_WARPS;
        length = (length + WARP - 1) / WARP * WARP;
        from = min(start + threadIdx.x / WARP * length, end);
        to = min(from + length, end);
    }
};

static __device__ __forceinline__ double add_sums(const double *sums) {
    double sum = 0;
    for (u32 i = 0; i < SAMPLE_WARPS; i++) sum += sums[i];
    return sum;
}

// Writes Σ of(i, logit) over each warp's part.
template <class F>
static __device__ __forceinline__ void sum_parts(const Logits &logits, const WarpPart &part, F of) {
    double sum = 0;
    each_pack(logits.row, part.from, part.to, threadIdx.x % WARP, WARP, [&](u32 i, const float(&v)[4]) {
        float x[4];
        for (u32 j = 0; j < 4; j++) x[j] = i + j < part.to ? of(i + j, v[j]) : 0;
        sum += (x[0] + x[1]) + (x[2] + x[3]);
    });
    sum = warp_sum(sum);
    __syncthreads();
    if (threadIdx.x % WARP == 0) logits.sums[threadIdx.x / WARP] = sum;
    __syncthreads();
}

// Σ of(i, logit) over the row, in every thread. `sums` has the parts' sums.
template <class F> static __device__ __forceinline__ double sum_all(const Logits &logits, F of) {
    sum_parts(logits, WarpPart(0, logits.n), of);
    return add_sums(logits.sums);
}

// The weights exp((logit − largest) · inverse) of a row.
struct Weights {
    float largest, inverse;
    // NaN if a logit is NaN or infinity, and 0 if none is finite.
    double total;

    __device__ __forceinline__ float operator()(float logit) const {
        return expf((logit - largest) * inverse);
    }
};

// A row's weights, in every thread, by one pass, in which they are related to the largest logit so far. `sums`
// has the parts' sums.
static __device__ __forceinline__ Weights weigh(const Logits &logits, float inverse) {
    __shared__ float largest_of[SAMPLE_WARPS];
    WarpPart part(0, logits.n);
    Weights weight = {LOWEST, inverse, 0};
    each_pack(logits.row, part.from, part.to, threadIdx.x % WARP, WARP, [&](u32, const float(&v)[4]) {
        float most = fmaxf(fmaxf(v[0], v[1]), fmaxf(v[2], v[3]));
        if (most > weight.largest) {
            weight.total *= expf((weight.largest - most) * inverse);
            weight.largest = most;
        }
        weight.total += (weight(v[0]) + weight(v[1])) + (weight(v[2]) + weight(v[3]));
    });
    float most = warp_max(weight.largest);
    double sum = warp_sum(weight.total * expf((weight.largest - most) * inverse));
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        largest_of[threadIdx.x / WARP] = most, logits.sums[threadIdx.x / WARP] = sum;
    __syncthreads();
    weight.largest = largest_of[0];
    for (u32 i = 1; i < SAMPLE_WARPS; i++) weight.largest = fmaxf(weight.largest, largest_of[i]);
    if (threadIdx.x < SAMPLE_WARPS) logits.sums[threadIdx.x] *= weight(largest_of[threadIdx.x]);
    __syncthreads();
    weight.total = add_sums(logits.sums);
    return weight;
}

// The first i at which the sum of of(0..=i, logit) exceeds `target`. Its terms are at least 0. If rounding
// leaves none, the last i with of(i, logit) > 0. The same in every thread. `summed` means that `sums` has the
// parts' sums.
//
// Each round divides the range that contains i into one part per warp, and continues with the part in which
// the sum exceeds the target.
template <class F>
static __device__ __forceinline__ u32 pick(const Logits &logits, double target, bool summed, F of) {
    __shared__ u32 found;
    u32 lane = threadIdx.x % WARP, from = 0, to = logits.n;
    double below = 0;
    while (to - from > WARP) {
        WarpPart part(from, to);
        if (!summed) sum_parts(logits, part, of);
        summed = false;
        const double *sums = logits.sums;
        u32 chosen = 0;
        double before = 0, cumulated = below;
        for (u32 i = 0; i < SAMPLE_WARPS; i++) {
            if (sums[i] > 0) chosen = i, before = cumulated;
            cumulated += sums[i];
            if (cumulated > target) break;
        }
        below = before;
        from = min(from + chosen * part.length, to);
        to = min(from + part.length, to);
    }
    if (threadIdx.x < WARP) {
        u32 at = from + lane, last = 0;
        double mine = at < to ? (double)of(at, logits.row[at]) : 0, cumulated = below;
        for (u32 i = 0; i < to - from; i++) {
            double x = __shfl_sync(WHOLE_WARP, mine, i);
            cumulated += x;
            if (x > 0) {
                last = i;
                if (cumulated > target) break;
            }
        }
        if (lane == 0) found = from + last;
    }
    __syncthreads();
    u32 result = found;
    // Before another call writes there.
    __syncthreads();
    return result;
}

// The largest key such that the amounts of all keys from it upwards sum to at least `wanted`, and the sum
// above it. `of(i, logit, key, amount)` returns whether i counts, and its key and amount. Amounts are
// integers, so that their sums do not depend on the order. Each round determines 8 bits of the key.
template <class A, class F>
static __device__ __forceinline__ u32 select_key(const Logits &logits, A wanted, A &above, F of) {
    __shared__ A amounts[256];
    __shared__ A passed;
    __shared__ u32 digit;
    u32 prefix = 0;
    above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        __syncthreads();
        for (u32 i = threadIdx.x; i < 256; i += SAMPLE_THREADS) amounts[i] = 0;
        __syncthreads();
        each_pack(logits.row, 0, logits.n, threadIdx.x, SAMPLE_THREADS, [&](u32 i, const float(&v)[4]) {
            for (u32 j = 0; j < 4; j++) {
                u32 key;
                A amount;
                if (i + j < logits.n && of(i + j, v[j], key, amount) &&
                    (u64)key >> (shift + 8) == (u64)prefix >> (shift + 8))
                    atomicAdd(&amounts[key >> shift & 255], amount);
            }
        });
        __syncthreads();
        if (threadIdx.x == 0) {
            A sum = above;
            u32 i = 255;
            while (i > 0 && sum + amounts[i] < wanted) sum += amounts[i--];
            digit = i, passed = sum;
        }
        __syncthreads();
        prefix |= digit << shift;
        above = passed;
    }
    return prefix;
}

// The tokens that pass the cut-offs: of the tokens with the largest logits (as many as top_k), the likeliest
// ones that reach top_p, without those below min_p. Equal ones are ordered by their ids.
struct Kept {
    Weights weight;
    // The tokens in top_k have a logit above this key, or this key and an id up to this one,
    u32 key, key_id;
    // and those in top_p have a weight above this one, or this weight and an id up to this one.
    u32 weight_bits, weight_id;
    float min_p;

    __device__ __forceinline__ bool in_top_k(u32 i, float logit) const {
        u32 of = ordered(logit);
        return of > key || (of == key && i <= key_id);
    }

    // The weight of a token that passes, and 0 for the others.
    __device__ __forceinline__ float operator()(u32 i, float logit) const {
        if (!in_top_k(i, logit)) return 0;
        float w = weight(logit);
        u32 bits = __float_as_uint(w);
        bool kept = w >= min_p && (bits > weight_bits || (bits == weight_bits && i <= weight_id));
        return kept ? w : 0;
    }
};

// Weights are counted in units of 2⁻⁴⁴, so that the sum for 2¹⁹ tokens fits. The rounding is far below what a
// draw can resolve.
static __device__ __forceinline__ u64 in_units(double x) { return (u64)(x * 17592186044416.0 + 0.5); }

// Samples with cut-offs. Up to MOST_SORTED remaining tokens are visited in the order of the reference, from
// the likeliest on, equal ones by their ids. If there are more, they are visited in the order of their ids,
// which gives the same distribution, but not the same token.
static __device__ __forceinline__ u32 draw_cut_off(const Logits &logits, Kept kept, const Draw &draw) {
    __shared__ u64 sorted[MOST_SORTED];
    __shared__ u32 count, chosen;
    if (draw.top_k > 0 && draw.top_k < logits.n) {
        u32 above;
        kept.key = select_key<u32>(logits, draw.top_k, above, [&](u32, float logit, u32 &key, u32 &amount) {
            key = ordered(logit);
            amount = 1;
            return true;
        });
        kept.key_id = pick(logits, (double)(draw.top_k - above) - 0.5, false, [&](u32, float logit) {
            return ordered(logit) == kept.key ? 1.0f : 0.0f;
        });
    }
    double wanted = 0;
    if (draw.top_p < 1) {
        wanted = (double)draw.top_p * sum_all(logits, kept);
        u64 above, target = max(in_units(wanted), (u64)1);
        u32 bits = select_key<u64>(logits, target, above, [&](u32 i, float logit, u32 &key, u64 &amount) {
            if (!kept.in_top_k(i, logit)) return false;
            float w = kept.weight(logit);
            key = __float_as_uint(w);
            amount = in_units(w);
            return true;
        });
        u64 one = max(in_units(__uint_as_float(bits)), (u64)1), equals = (target - above + one - 1) / one;
        u32 id = pick(logits, (double)equals - 0.5, false, [&](u32 i, float logit) {
            return kept.in_top_k(i, logit) && __float_as_uint(kept.weight(logit)) == bits ? 1.0f : 0.0f;
        });
        kept.weight_bits = bits;
        kept.weight_id = id;
    }
    kept.min_p = draw.min_p;

    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    each_pack(logits.row, 0, logits.n, threadIdx.x, SAMPLE_THREADS, [&](u32 i, const float(&v)[4]) {
        for (u32 j = 0; j < 4; j++) {
            float w = i + j < logits.n ? kept(i + j, v[j]) : 0;
            if (w > 0) {
                u32 place = atomicAdd(&count, 1u);
                if (place < MOST_SORTED) sorted[place] = (u64)~__float_as_uint(w) << 32 | (i + j);
            }
        }
    });
    __syncthreads();
    double random = uniform(draw.seed, draw.index);
    if (count > MOST_SORTED) return pick(logits, random * sum_all(logits, kept), true, kept);

    // A bitonic sort of the next power of 2.
    u32 size = 2;
    while (size < count) size *= 2;
    for (u32 i = count + threadIdx.x; i < size; i += SAMPLE_THREADS) sorted[i] = ~0ull;
    for (u32 run = 2; run <= size; run *= 2) {
        for (u32 step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (u32 i = threadIdx.x; i < size / 2; i += SAMPLE_THREADS) {
                u32 a = i / step * 2 * step + i % step, b = a + step;
                u64 x = sorted[a], y = sorted[b];
                if ((x > y) == ((a & run) == 0)) sorted[a] = y, sorted[b] = x;
            }
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 left = count;
        double total = 0;
        // The sums in the reference's order decide where top_p is reached.
        for (u32 i = 0; i < left; i++) {
            total += __uint_as_float(~(u32)(sorted[i] >> 32));
            if (draw.top_p < 1 && total >= wanted) left = i + 1;
        }
        double cumulated = 0, target = random * total;
        u32 i = 0;
        for (; i + 1 < left; i++) {
            cumulated += __uint_as_float(~(u32)(sorted[i] >> 32));
            if (cumulated > target) break;
        }
        chosen = (u32)sorted[i];
    }
    __syncthreads();
    return chosen;
}

// Writes for each draw a token and its log-probability under the temperature alone (at temperature 0 the
// lowest id of the likeliest tokens, and its log-probability at temperature 1). Suppressed tokens count in the
// log-probability; their logits are overwritten. bad[i] = 1 if logits contain NaN or +infinity, or nothing
// finite that can be sampled. Grid: draws; 512 threads.
__global__ void __launch_bounds__(SAMPLE_THREADS, 2)
    sample(u32 *token, float *logp, u32 *bad, float *logits, size_t vocabulary, const Draw *draws,
           const u32 *suppressed) {
    __shared__ double sums[SAMPLE_WARPS];
    float *row = logits + blockIdx.x * vocabulary;
    Logits of = {row, (u32)vocabulary, sums};
    Draw draw = draws[blockIdx.x];
    bool greedy = draw.temperature == 0;
    float temperature = greedy ? 1 : draw.temperature;
    const Weights all = weigh(of, 1 / temperature);
    Weights allowed = all;
    if (draw.suppressed_count > 0) {
        // The barriers of the sum separate reading the logits from overwriting them.
        for (u32 i = threadIdx.x; i < draw.suppressed_count; i += SAMPLE_THREADS) {
            u32 id = suppressed[draw.first_suppressed + i];
            if (id < of.n) row[id] = minus_infinity();
        }
        __syncthreads();
        allowed = weigh(of, 1 / temperature);
    }
    // False for NaN, which stays in the sum of all.
    if (!(all.total > 0 && allowed.total > 0)) {
        if (threadIdx.x == 0) token[blockIdx.x] = 0, logp[blockIdx.x] = 0, bad[blockIdx.x] = 1;
        return;
    }
    u32 chosen;
    if (greedy) {
        chosen = pick(of, 0.5, false, [&](u32, float logit) { return logit == allowed.largest ? 1.0f : 0.0f; });
    } else if (draw.top_k > 0 || draw.top_p < 1 || draw.min_p > 0) {
        chosen = draw_cut_off(of, {allowed, 0, of.n, 0, of.n, 0}, draw);
    } else {
        auto weight = [&](u32, float logit) { return allowed(logit); };
        chosen = pick(of, uniform(draw.seed, draw.index) * allowed.total, true, weight);
    }
    if (threadIdx.x == 0) {
        token[blockIdx.x] = chosen;
        logp[blockIdx.x] = (float)((double)((row[chosen] - all.largest) / temperature) - log(all.total));
        bad[blockIdx.x] = 0;
    }
}
