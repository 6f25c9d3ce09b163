// Log-probabilities over the vocabulary, and their gradient. A block of 512 threads processes a row of
// logits. z = (logit − largest) / temperature, as in sampling; a difference of rounded quotients would be
// wrong at low temperatures. The targets of row r are tokens[first[r]..first[r + 1]]; several targets may
// share a row.

struct RowStatistics {
    // The largest logit.
    float largest;
    // Σ exp(z), and Σ exp(z) · z.
    double sum, weighted;
};

// In every thread of the block, by one pass: what has been summed is related to the largest logit so far.
static __device__ __forceinline__ RowStatistics
row_statistics(const float *row, size_t vocabulary, float temperature) {
    // With a logit of minus infinity, or without one so far, a weight is 0 and adds nothing.
    const float least = -1e4f;
    float inverse = 1 / temperature, most = LOWEST, sum = 0, weighted = 0;
    auto relate = [&](float largest) {
        float step = fmaxf((most - largest) * inverse, least), fade = expf(step);
        weighted = fmaf(sum, step, weighted) * fade;
        sum *= fade;
        most = largest;
    };
    each_pack(row, 0, (u32)vocabulary, threadIdx.x, blockDim.x, [&](u32, const float(&v)[4]) {
        float largest = fmaxf(fmaxf(v[0], v[1]), fmaxf(v[2], v[3]));
        if (largest > most) relate(largest);
        for (u32 j = 0; j < 4; j++) {
            float z = (v[j] - most) * inverse, e = expf(z);
            sum += e;
            weighted = fmaf(e, fmaxf(z, least), weighted);
        }
    });
    float largest = block_max(most);
    relate(largest);
    return {largest, block_sum((double)sum), block_sum((double)weighted)};
}

// Writes each target's log-probability and its row's entropy, in nats. Rows without a target are not read.
__global__ void __launch_bounds__(512) log_probs(
    float *logp, float *entropy, const float *logits, size_t vocabulary, const u32 *first, const u32 *tokens,
    float temperature) {
    u32 from = first[blockIdx.x], to = first[blockIdx.x + 1];
    if (from == to) return;
    const float *row = logits + blockIdx.x * vocabulary;
    RowStatistics of = row_statistics(row, vocabulary, temperature);
    double log_sum = log(of.sum);
    for (u32 i = from + threadIdx.x; i < to; i += blockDim.x) {
        logp[i] = (float)((double)((row[tokens[i]] - of.largest) / temperature) - log_sum);
        entropy[i] = (float)(log_sum - of.weighted / of.sum);
    }
}

// Bits of a set of tokens. It may contain other tokens too, since tokens that are equal modulo TARGET_BITS
// share a bit.
static const u32 TARGET_BITS = 16384;

// Replaces the logits by dL/dlogits = (Σ dlogp at the token − probability · Σ dlogp) / temperature, times the
// slope of the cap if logits are capped (soft_cap > 0): 1 − (logit / cap)². Rows without a target become 0.
__global__ void __launch_bounds__(512) log_probs_backward(
    float *logits, size_t vocabulary, const u32 *first, const u32 *tokens, const float *dlogp,
    float temperature, float soft_cap) {
    __shared__ u32 targets[TARGET_BITS / 32];
    u32 from = first[blockIdx.x], to = first[blockIdx.x + 1];
    float *row = logits + blockIdx.x * vocabulary;
    if (from == to) {
        for (size_t i = threadIdx.x; i < vocabulary; i += blockDim.x) row[i] = 0;
        return;
    }
    for (u32 i = threadIdx.x; i < TARGET_BITS / 32; i += blockDim.x) targets[i] = 0;
    __syncthreads();
    for (u32 i = from + threadIdx.x; i < to; i += blockDim.x) {
        u32 bit = tokens[i] % TARGET_BITS;
        atomicOr(&targets[bit / 32], 1u << bit % 32);
    }
    float dsum = 0;
    for (u32 i = from; i < to; i++) dsum += dlogp[i];
    // Its barriers also separate writing the bits from reading them.
    RowStatistics of = row_statistics(row, vocabulary, temperature);
    float factor = (float)(-(double)(dsum / temperature) / of.sum);
    float inverse = 1 / temperature, inverse_cap = soft_cap > 0 ? 1 / soft_cap : 0;
    bool packed = packable(row);
    for (size_t i = 4 * threadIdx.x; i < vocabulary; i += 4 * blockDim.x) {
        float v[4];
        load4(v, row + i, vocabulary - i, packed);
        for (u32 j = 0; j < 4; j++) {
            // A logit of minus infinity was not capped; its probability is 0.
            float share = fmaxf(v[j] * inverse_cap, -1), slope = soft_cap > 0 ? 1 - share * share : 1;
            v[j] = expf((v[j] - of.largest) * inverse) * factor * slope;
            u32 bit = (u32)(i + j) % TARGET_BITS;
            if (targets[bit / 32] >> bit % 32 & 1) {
                for (u32 k = from; k < to; k++) {
                    if (tokens[k] == i + j) v[j] += dlogp[k] / temperature * slope;
                }
            }
        }
        store4(row + i, v, vocabulary - i, packed);
    }
}
