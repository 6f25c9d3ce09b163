//! From the residual stream to log-probabilities, a few rows at a time, so that logits of all tokens never exist at once.

use std::ops::Range;

use crate::backend::{Buf, Target};
use crate::error::EngineError;
use crate::model::backward::BackwardPass;
use crate::model::forward::Decoder;
use crate::model::workspace::Workspace;

/// The targets with rows in a range, and their rows counted from its start. Targets are ordered by row.
fn targets_in(targets: &[Target], rows: &Range<usize>) -> (Range<usize>, Vec<Target>) {
    let from = targets.partition_point(|t| t.row < rows.start);
    let to = targets.partition_point(|t| t.row < rows.end);
    let local = targets[from..to].iter().map(|t| Target {
        row: t.row - rows.start,
        token: t.token,
    });
    (from..to, local.collect())
}

/// Ranges of `0..rows` that the head computes at a time.
fn chunks(work: &Workspace, rows: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let chunk = work.size.logit_rows;
    (0..rows)
        .step_by(chunk.max(1))
        .map(move |from| from..rows.min(from + chunk))
}

impl Decoder {
    /// Computes the logits of some tokens (rows of `x`) into `work.logits`.
    fn head(&mut self, work: &Workspace, x: Buf, rows: &[usize]) {
        let hidden = self.widths.hidden;
        let picked = work.picked.at(0, rows.len() * hidden);
        self.backend.gather(picked, x, rows, hidden);
        self.head_of(work, picked, rows.len());
    }

    /// Computes the logits of the first `rows` tokens of `x` into `work.logits`.
    fn head_of(&mut self, work: &Workspace, x: Buf, rows: usize) {
        let head = self.layout.head.within(self.weights);
        let size = self.head_size(rows);
        let norm = self.layout.norm;
        self.norm_stream(work.picked_normed, x, norm, rows);
        let cap = self.constants.logit_cap;
        let b = &mut self.backend;
        b.linear(work.logits, work.picked_normed, head, size, false);
        if let Some(cap) = cap {
            b.soft_cap(work.logits.at(0, rows * size.outputs), cap);
        }
    }

    /// Log-probability and entropy of each target. Targets are ordered by row; a target's row is an index into `rows`.
    pub(crate) fn log_probs(
        &mut self,
        work: &Workspace,
        x: Buf,
        rows: &[usize],
        targets: &[Target],
        temperature: f32,
    ) -> Result<(Vec<f32>, Vec<f32>), EngineError> {
        let vocabulary = self.widths.vocabulary;
        for chunk in chunks(work, rows.len()) {
            let (range, local) = targets_in(targets, &chunk);
            self.head(work, x, &rows[chunk.clone()]);
            let [logp, entropy] =
                [work.logp, work.entropy].map(|all| all.at(range.start, range.len()));
            let logits = work.logits.at(0, chunk.len() * vocabulary);
            let b = &mut self.backend;
            b.log_probs(logp, entropy, logits, vocabulary, &local, temperature);
        }
        let n = targets.len();
        let (mut logp, mut entropy) = (vec![0.0; n], vec![0.0; n]);
        self.backend.download(work.logp.at(0, n), &mut logp)?;
        self.backend.download(work.entropy.at(0, n), &mut entropy)?;
        Ok((logp, entropy))
    }

    /// Backward pass of [`Decoder::log_probs`], with the same arguments and the gradient `dlogp` of each target: adds to `back.dx` and to the gradients of the
    /// head and the last norm.
    pub(crate) fn log_probs_backward(
        &mut self,
        pass: BackwardPass<'_>,
        x: Buf,
        rows: &[usize],
        targets: &[Target],
        dlogp: &[f32],
        temperature: f32,
    ) {
        let BackwardPass { work, back, .. } = pass;
        let w = self.widths;
        let (head, norm) = (self.layout.head, self.layout.norm);
        let cap = self.constants.logit_cap;
        for chunk in chunks(work, rows.len()) {
            let (range, local) = targets_in(targets, &chunk);
            let rows = &rows[chunk];
            self.head(work, x, rows);
            let logits = work.logits.at(0, rows.len() * w.vocabulary);
            let (b, dlogp) = (&mut self.backend, &dlogp[range]);
            b.log_probs_backward(logits, w.vocabulary, &local, dlogp, temperature, cap);
            let size = self.head_size(rows.len());
            let (dpicked_normed, weight) = (back.dpicked_normed, head.within(self.weights));
            if self.adapters.is_none() {
                let (dhead, x) = (head.within(pass.gradient), work.picked_normed);
                self.backend.linear_backward_weight(dhead, logits, x, size);
            }
            self.backend
                .linear_backward_input(dpicked_normed, logits, weight, size, false);
            let dpicked = back.dpicked.at(0, rows.len() * w.hidden);
            self.backend.zero(dpicked);
            let pass = BackwardPass {
                tokens: rows.len(),
                ..pass
            };
            self.norm_backward(dpicked, dpicked_normed, work.picked, norm, pass);
            self.backend.scatter_add(back.dx, dpicked, rows, w.hidden);
        }
    }

    /// Samples tokens with the current draws, each after one of some tokens: the rows `rows` of `x`, or the first `count` rows if there are none. Rows beyond
    /// the draws are computed and ignored.
    pub(crate) fn sample(
        &mut self,
        work: &Workspace,
        x: Buf,
        rows: Option<&[usize]>,
        count: usize,
    ) {
        let vocabulary = self.widths.vocabulary;
        for chunk in chunks(work, count) {
            match rows {
                Some(rows) => self.head(work, x, &rows[chunk.clone()]),
                None => {
                    let hidden = self.widths.hidden;
                    let x = x.at(chunk.start * hidden, chunk.len() * hidden);
                    self.head_of(work, x, chunk.len());
                }
            }
            let logits = work.logits.at(0, chunk.len() * vocabulary);
            self.backend.sample(logits, vocabulary, chunk);
        }
    }

    /// Logits of some tokens (rows of `x`).
    pub(crate) fn logits(
        &mut self,
        work: &Workspace,
        x: Buf,
        rows: &[usize],
    ) -> Result<Vec<f32>, EngineError> {
        let vocabulary = self.widths.vocabulary;
        let mut logits = vec![0.0; rows.len() * vocabulary];
        for chunk in chunks(work, rows.len()) {
            self.head(work, x, &rows[chunk.clone()]);
            let part = work.logits.at(0, chunk.len() * vocabulary);
            let to = &mut logits[chunk.start * vocabulary..chunk.end * vocabulary];
            self.backend.download(part, to)?;
        }
        Ok(logits)
    }
}
