//! The decoder in candle's basic operations, as a reference for gradients: each of these operations has a backward pass.

use std::collections::BTreeMap;

use candle_core::{D, Device, Result, Tensor, Var};
use engine::batch::Group;
use engine::config::{Activation, ModelConfig};
use engine::load::Weights;

pub(crate) struct Reference {
    config: ModelConfig,
    pub(crate) vars: BTreeMap<String, Var>,
}

impl Reference {
    pub(crate) fn new(config: &ModelConfig, weights: &Weights) -> Result<Self> {
        let mut vars = BTreeMap::new();
        for (name, tensor) in &weights.tensors {
            let value = Tensor::from_slice(&tensor.data, tensor.shape.as_slice(), &Device::Cpu)?;
            vars.insert(name.clone(), Var::from_tensor(&value)?);
        }
        Ok(Self {
            config: config.clone(),
            vars,
        })
    }

    fn weight(&self, name: &str) -> &Tensor {
        self.vars[name].as_tensor()
    }

    fn norm(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let mean = x.sqr()?.mean_keepdim(D::Minus1)?;
        let eps = f64::from(self.config.rms_norm_eps);
        let x = x.broadcast_div(&(mean + eps)?.sqrt()?)?;
        let weight = self.weight(name);
        match self.config.flags.unit_offset_norms {
            true => x.broadcast_mul(&(weight + 1.0)?),
            false => x.broadcast_mul(weight),
        }
    }

    fn activation(&self, x: &Tensor) -> Result<Tensor> {
        match self.config.flags.activation {
            Activation::Silu => x * (x.neg()?.exp()? + 1.0)?.recip()?,
            Activation::GeluTanh => {
                let inner = ((x.powf(3.0)? * 0.044_715)? + x)?;
                let inner = (inner * (2.0 / std::f64::consts::PI).sqrt())?;
                ((x * 0.5)? * (inner.tanh()? + 1.0)?)?.contiguous()
            }
        }
    }

    fn linear(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let y = x.matmul(&self.weight(&format!("{name}.weight")).t()?)?;
        match self.vars.get(&format!("{name}.bias")) {
            Some(bias) => y.broadcast_add(bias.as_tensor()),
            None => Ok(y),
        }
    }

    /// `(tokens, heads · width)` → `(heads, tokens, width)`, normalised if the model has such norms, and rotated.
    fn rotated(&self, x: &Tensor, heads: usize, layer: usize, norm: &str) -> Result<Tensor> {
        let (tokens, width) = (x.dim(0)?, self.config.head_dim);
        let mut x = self.heads(x, heads)?;
        if self.config.flags.qk_norm {
            x = self.norm(&x, norm)?;
        }
        let slides = self.slides(layer).is_some();
        let frequencies = match self.config.sliding_rope_frequencies() {
            Some(own) if slides => own,
            _ => self.config.rope_frequencies(),
        };
        let half = width / 2;
        let angles: Vec<f32> = (0..tokens)
            .flat_map(|p| frequencies.iter().map(move |f| p as f32 * f))
            .collect();
        let angles = Tensor::from_vec(angles, (1, tokens, half), &Device::Cpu)?;
        let (cos, sin) = (angles.cos()?, angles.sin()?);
        let (a, b) = (x.narrow(2, 0, half)?, x.narrow(2, half, half)?);
        let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
        let second = (b.broadcast_mul(&cos)? + a.broadcast_mul(&sin)?)?;
        Tensor::cat(&[first, second], 2)
    }

    /// The window of a layer, if it has one.
    fn slides(&self, layer: usize) -> Option<usize> {
        let sliding = self.config.sliding.as_ref()?;
        sliding.layers[layer].then_some(sliding.window)
    }

    /// `(tokens, heads · width)` → `(heads, tokens, width)`.
    fn heads(&self, x: &Tensor, heads: usize) -> Result<Tensor> {
        let (tokens, width) = (x.dim(0)?, self.config.head_dim);
        x.reshape((tokens, heads, width))?
            .transpose(0, 1)?
            .contiguous()
    }

    /// Logits of one whole sequence, `(tokens, vocabulary)`.
    pub(crate) fn logits(&self, tokens: &[u32]) -> Result<Tensor> {
        let c = &self.config;
        let n = tokens.len();
        let ids = Tensor::from_slice(tokens, n, &Device::Cpu)?;
        let mut x = self
            .weight("model.embed_tokens.weight")
            .index_select(&ids, 0)?;
        if c.flags.scaled_embedding {
            x = (x * (c.hidden_size as f64).sqrt())?;
        }
        for layer in 0..c.num_hidden_layers {
            let window = self.slides(layer).unwrap_or(usize::MAX);
            let mask: Vec<f32> = (0..n)
                .flat_map(|q| (0..n).map(move |k| (q, k)))
                .map(|(q, k)| if k <= q && q - k < window { 0.0 } else { -1e9 })
                .collect();
            let mask = Tensor::from_vec(mask, (1, n, n), &Device::Cpu)?;
            let name = |suffix: &str| format!("model.layers.{layer}.{suffix}");
            let h = self.norm(&x, &name("input_layernorm.weight"))?;
            let (heads, kv) = (c.num_attention_heads, c.num_key_value_heads);
            let q = self.linear(&h, &name("self_attn.q_proj"))?;
            let q = self.rotated(&q, heads, layer, &name("self_attn.q_norm.weight"))?;
            let k = self.linear(&h, &name("self_attn.k_proj"))?;
            let k = self.rotated(&k, kv, layer, &name("self_attn.k_norm.weight"))?;
            let v = self.heads(&self.linear(&h, &name("self_attn.v_proj"))?, kv)?;
            let repeat = |x: Tensor| -> Result<Tensor> {
                let x = x.unsqueeze(1)?;
                let x = x.broadcast_as((kv, heads / kv, n, c.head_dim))?;
                x.contiguous()?.reshape((heads, n, c.head_dim))
            };
            let (k, v) = (repeat(k)?, repeat(v)?);
            let scale = 1.0 / f64::from(c.query_pre_attn_scalar).sqrt();
            let scores = (q.matmul(&k.transpose(1, 2)?.contiguous()?)? * scale)?;
            let scores = capped(scores, c.attn_logit_softcapping)?.broadcast_add(&mask)?;
            let e = scores
                .broadcast_sub(&scores.max_keepdim(2)?.detach())?
                .exp()?;
            let p = e.broadcast_div(&e.sum_keepdim(2)?)?;
            let y = p.matmul(&v)?.transpose(0, 1)?.contiguous()?;
            let y = y.reshape((n, heads * c.head_dim))?;
            let mut y = self.linear(&y, &name("self_attn.o_proj"))?;
            let after_attention = name("post_attention_layernorm.weight");
            let mut before_mlp = after_attention.clone();
            if c.flags.sandwich_norms {
                y = self.norm(&y, &after_attention)?;
                before_mlp = name("pre_feedforward_layernorm.weight");
            }
            x = (x + y)?;
            let h = self.norm(&x, &before_mlp)?;
            let gate = self.activation(&self.linear(&h, &name("mlp.gate_proj"))?)?;
            let up = self.linear(&h, &name("mlp.up_proj"))?;
            let mut y = self.linear(&(gate * up)?, &name("mlp.down_proj"))?;
            if c.flags.sandwich_norms {
                y = self.norm(&y, &name("post_feedforward_layernorm.weight"))?;
            }
            x = (x + y)?;
        }
        let x = self.norm(&x, "model.norm.weight")?;
        let head = match self.vars.get("lm_head.weight") {
            Some(head) => head.as_tensor(),
            None => self.weight("model.embed_tokens.weight"),
        };
        capped(x.matmul(&head.t()?)?, c.final_logit_softcapping)
    }

    /// Log-probabilities of each completion's tokens at a temperature. Each completion is a separate sequence with its prompt.
    pub(crate) fn log_probs(&self, groups: &[Group], temperature: f64) -> Result<Vec<Tensor>> {
        let mut all = Vec::new();
        for group in groups {
            for completion in &group.completions {
                let tokens: Vec<u32> = group.prompt.iter().chain(completion).copied().collect();
                let logits = self.logits(&tokens[..tokens.len() - 1])?;
                let logits = logits.narrow(0, group.prompt.len() - 1, completion.len())?;
                let z = (logits / temperature)?;
                let z = z.broadcast_sub(&z.max_keepdim(1)?.detach())?;
                let log_sum = z.exp()?.sum_keepdim(1)?.log()?;
                let ids = Tensor::from_slice(completion, (completion.len(), 1), &Device::Cpu)?;
                let logp = (z.gather(&ids, 1)? - log_sum)?.squeeze(1)?;
                all.push(logp);
            }
        }
        Ok(all)
    }

    /// Gradient of Σ dlogp · logp with respect to every weight.
    pub(crate) fn gradients(
        &self,
        groups: &[Group],
        temperature: f64,
        dlogp: &[Vec<f32>],
    ) -> Result<BTreeMap<String, Vec<f32>>> {
        let mut loss = Tensor::new(0f32, &Device::Cpu)?;
        for (logp, dlogp) in self.log_probs(groups, temperature)?.iter().zip(dlogp) {
            let dlogp = Tensor::from_slice(dlogp, dlogp.len(), &Device::Cpu)?;
            loss = (loss + (logp * dlogp)?.sum_all()?)?;
        }
        let store = loss.backward()?;
        let mut gradients = BTreeMap::new();
        for (name, var) in &self.vars {
            let gradient = store.get(var.as_tensor()).expect("every weight is used");
            gradients.insert(name.clone(), gradient.flatten_all()?.to_vec1()?);
        }
        Ok(gradients)
    }
}

/// `cap · tanh(x / cap)`.
fn capped(x: Tensor, cap: Option<f32>) -> Result<Tensor> {
    match cap.map(f64::from) {
        Some(cap) => (x / cap)?.tanh()? * cap,
        None => Ok(x),
    }
}
