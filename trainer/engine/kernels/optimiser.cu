// Gradient norms and AdamW.

// partial[p] = Σ x² over the p-th of gridDim.x contiguous parts. Their lengths are multiples of 4, so that each
// begins at a multiple of 16 bytes if x does. 256 threads per block. Each thread sums 32 numbers in float, and
// these sums in double.
__global__ void __launch_bounds__(256) sum_squares(double *partial, const float *x, size_t n) {
    size_t length = ((n + gridDim.x - 1) / gridDim.x + 3) / 4 * 4;
    size_t from = min(blockIdx.x * length, n), to = min(from + length, n);
    bool packed = packable(x + from);
    double sum = 0;
    for (size_t start = from; start < to; start += 32 * (size_t)blockDim.x) {
        float part = 0;
#pragma unroll
        for (u32 k = 0; k < 8; k++) {
            size_t i = start + 4 * (k * blockDim.x + threadIdx.x);
            if (i < to) {
                float v[4];
                load4(v, x + i, to - i, packed);
                for (u32 j = 0; j < 4; j++) part = fmaf(v[j], v[j], part);
            }
        }
        sum += part;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// AdamW (Loshchilov & Hutter 2019): g ← g · grad_scale; m ← β₁m + (1−β₁)g; v ← β₂v + (1−β₂)g²; w ← w −
// lr·(m/bias1 / (√(v/bias2) + eps) + decay·w), where bias1 = 1 − β₁ᵗ and bias2 = 1 − β₂ᵗ. `low`, unless null,
// receives the new weights in bf16. Grid-stride, 256 threads per block.
__global__ void __launch_bounds__(256) adamw(
    float *w, bf16 *low, const float *g, float *m, float *v, size_t n, float lr, float beta1, float beta2,
    float eps, float decay, float bias1, float bias2, float grad_scale) {
    bool packed = packable(w) && packable(g) && packable(m) && packable(v) && packable(low);
    for (size_t i = 4 * thread_in_grid(); i < n; i += 4 * threads_of_grid()) {
        float weight[4], gradient[4], mean[4], square[4];
        load4(weight, w + i, n - i, packed);
        load4(gradient, g + i, n - i, packed);
        load4(mean, m + i, n - i, packed);
        load4(square, v + i, n - i, packed);
        for (u32 j = 0; j < 4; j++) {
            float d = gradient[j] * grad_scale;
            mean[j] = fmaf(mean[j], beta1, d * (1 - beta1));
            square[j] = fmaf(square[j], beta2, d * d * (1 - beta2));
            float size = sqrtf(square[j] / bias2) + eps;
            float direction = mean[j] / bias1 / size;
            weight[j] = fmaf(-lr, direction, fmaf(-lr * decay, weight[j], weight[j]));
        }
        store4(w + i, weight, n - i, packed);
        store4(m + i, mean, n - i, packed);
        store4(v + i, square, n - i, packed);
        if (low) store4(low + i, weight, n - i, packed);
    }
}
