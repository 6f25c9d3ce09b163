// Samples tokens. A block of 512 threads samples from a row of logits like `sample::draw`: weights are float
// exponentials of (logit − largest) / temperature, and their sums are double. As the order of the sums
// differs, a draw whose target is within rounding of the border between two tokens may give the other one.

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

// Σ of(i) over all i < n, in every thread.
template <class F> static __device__ __forceinline__ double sum_all(u32 n, F of) {
    double sum = 0;
    for (u32 i = threadIdx.x; i < n; i += SAMPLE_THREADS) sum += of(i);
    return block_sum(sum);
}

// The first i < n at which the sum of of(0..=i), whose terms are at least 0, exceeds `target`. If rounding
// leaves none, the last i with of(i) > 0. The same in every thread.
//
// Each round divides the range that contains i into one part per warp, and continues with the part in which
// the sum exceeds the target.
template <class F> static __device__ __forceinline__ u32 pick(u32 n, double target, F of) {
    __shared__ double sums[SAMPLE_WARPS];
    __shared__ u32 found;
    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, from = 0, to = n;
    double below = 0;
    while (to - from > WARP) {
        u32 length = (to - from + SAMPLE_WARPS - 1) / SAMPLE_WARPS;
        length = (length + WARP - 1) / WARP * WARP;
        u32 start = min(from + warp * length, to), end = min(start + length, to);
        double sum = 0;
        for (u32 i = start + lane; i < end; i += WARP) sum += of(i);
        sum = warp_sum(sum);
        __syncthreads();
        if (lane == 0) sums[warp] = sum;
        __syncthreads();
        u32 chosen = 0;
        double before = 0, cumulated = below;
        for (u32 i = 0; i < SAMPLE_WARPS; i++) {
            if (sums[i] > 0) chosen = i, before = cumulated;
            cumulated += sums[i];
            if (cumulated > target) break;
        }
        below = before;
        from = min(from + chosen * length, to);
        to = min(from + length, to);
    }
    if (warp == 0) {
        double mine = from + lane < to ? (double)of(from + lane) : 0, cumulated = below;
        u32 last = 0;
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
// above it. `of(i, key, amount)` returns whether i counts, and its key and amount. Amounts are integers, so
// that their sums do not depend on the order. Each round determines 8 bits of the key.
template <class A, class F>
static __device__ __forceinline__ u32 select_key(u32 n, A wanted, A &above, F of) {
    __shared__ A amounts[256];
    __shared__ A passed;
    __shared__ u32 digit;
    u32 prefix = 0;
    above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        __syncthreads();
        for (u32 i = threadIdx.x; i < 256; i += SAMPLE_THREADS) amounts[i] = 0;
        __syncthreads();
        for (u32 i = threadIdx.x; i < n; i += SAMPLE_THREADS) {
            u32 key;
            A amount;
            if (of(i, key, amount) && (u64)key >> (shift + 8) == (u64)prefix >> (shift + 8))
                atomicAdd(&amounts[key >> shift & 255], amount);
        }
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
    const float *logits;
    float largest, temperature;
    // The tokens in top_k have a logit above this key, or this key and an id up to this one,
    u32 key, key_id;
    // and those in top_p have a weight above this one, or this weight and an id up to this one.
    u32 weight_bits, weight_id;
    float min_p;

    __device__ __forceinline__ float weight(u32 i) const { return expf((logits[i] - largest) / temperature); }

    __device__ __forceinline__ bool in_top_k(u32 i) const {
        u32 of = ordered(logits[i]);
        return of > key || (of == key && i <= key_id);
    }

    // The weight of a token that passes, and 0 for the others.
    __device__ __forceinline__ float operator()(u32 i) const {
        if (!in_top_k(i)) return 0;
        float w = weight(i);
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
static __device__ __forceinline__ u32 draw_cut_off(Kept kept, u32 n, const Draw &draw) {
    __shared__ u64 sorted[MOST_SORTED];
    __shared__ u32 count, chosen;
    if (draw.top_k > 0 && draw.top_k < n) {
        u32 above;
        kept.key = select_key<u32>(n, draw.top_k, above, [&](u32 i, u32 &key, u32 &amount) {
            key = ordered(kept.logits[i]);
            amount = 1;
            return true;
        });
        kept.key_id = pick(n, (double)(draw.top_k - above) - 0.5, [&](u32 i) {
            return ordered(kept.logits[i]) == kept.key ? 1.0f : 0.0f;
        });
    }
    double wanted = 0;
    if (draw.top_p < 1) {
        wanted = (double)draw.top_p * sum_all(n, kept);
        u64 above, target = max(in_units(wanted), (u64)1);
        u32 bits = select_key<u64>(n, target, above, [&](u32 i, u32 &key, u64 &amount) {
            if (!kept.in_top_k(i)) return false;
            float w = kept.weight(i);
            key = __float_as_uint(w);
            amount = in_units(w);
            return true;
        });
        u64 one = max(in_units(__uint_as_float(bits)), (u64)1), equals = (target - above + one - 1) / one;
        u32 id = pick(n, (double)equals - 0.5, [&](u32 i) {
            return kept.in_top_k(i) && __float_as_uint(kept.weight(i)) == bits ? 1.0f : 0.0f;
        });
        kept.weight_bits = bits;
        kept.weight_id = id;
    }
    kept.min_p = draw.min_p;

    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    for (u32 i = threadIdx.x; i < n; i += SAMPLE_THREADS) {
        float w = kept(i);
        if (w > 0) {
            u32 place = atomicAdd(&count, 1u);
            if (place < MOST_SORTED) sorted[place] = (u64)~__float_as_uint(w) << 32 | i;
        }
    }
    __syncthreads();
    double random = uniform(draw.seed, draw.index);
    if (count > MOST_SORTED) return pick(n, random * sum_all(n, kept), kept);

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
__global__ void __launch_bounds__(SAMPLE_THREADS)
    sample(u32 *token, float *logp, u32 *bad, float *logits, size_t vocabulary, const Draw *draws,
           const u32 *suppressed) {
    __shared__ u32 first;
    __shared__ int nan;
    // Of all tokens: the largest logit, and the logarithm of the sum of the weights.
    __shared__ float all_largest;
    __shared__ double all_log_total;
    float *row = logits + blockIdx.x * vocabulary;
    u32 n = (u32)vocabulary;
    Draw draw = draws[blockIdx.x];
    if (threadIdx.x == 0) first = n, nan = 0;
    __syncthreads();
    float largest = minus_infinity();
    bool seen_nan = false;
    for (u32 i = threadIdx.x; i < n; i += SAMPLE_THREADS) {
        seen_nan |= row[i] != row[i];
        largest = fmaxf(largest, row[i]);
    }
    if (seen_nan) nan = 1;
    largest = block_max(largest);
    if (nan || largest - largest != 0) {
        if (threadIdx.x == 0) token[blockIdx.x] = 0, logp[blockIdx.x] = 0, bad[blockIdx.x] = 1;
        return;
    }
    bool greedy = draw.temperature == 0;
    float temperature = greedy ? 1 : draw.temperature;
    Kept allowed = {row, largest, temperature, 0, n, 0, n, 0};
    auto weight = [&](u32 i) { return allowed.weight(i); };
    double total = sum_all(n, weight);
    if (threadIdx.x == 0) all_largest = largest, all_log_total = log(total);
    if (draw.suppressed_count > 0) {
        // The barriers of the sum separate reading the logits from overwriting them.
        for (u32 i = threadIdx.x; i < draw.suppressed_count; i += SAMPLE_THREADS) {
            u32 id = suppressed[draw.first_suppressed + i];
            if (id < n) row[id] = minus_infinity();
        }
        __syncthreads();
        allowed.largest = minus_infinity();
        for (u32 i = threadIdx.x; i < n; i += SAMPLE_THREADS) allowed.largest = fmaxf(allowed.largest, row[i]);
        allowed.largest = block_max(allowed.largest);
        if (allowed.largest == minus_infinity()) {
            if (threadIdx.x == 0) token[blockIdx.x] = 0, logp[blockIdx.x] = 0, bad[blockIdx.x] = 1;
            return;
        }
        total = sum_all(n, weight);
    }
    u32 chosen;
    if (greedy) {
        for (u32 i = threadIdx.x; i < n; i += SAMPLE_THREADS) {
            if (row[i] == allowed.largest) {
                atomicMin(&first, i);
                break;
            }
        }
        __syncthreads();
        chosen = first;
    } else if (draw.top_k > 0 || draw.top_p < 1 || draw.min_p > 0) {
        chosen = draw_cut_off(allowed, n, draw);
    } else {
        chosen = pick(n, uniform(draw.seed, draw.index) * total, weight);
    }
    if (threadIdx.x == 0) {
        token[blockIdx.x] = chosen;
        logp[blockIdx.x] = (float)((double)((row[chosen] - all_largest) / temperature) - all_log_total);
        bad[blockIdx.x] = 0;
    }
}
