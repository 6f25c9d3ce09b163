//! The items of one request to `/v1/verify`: those that are judged, and those that cannot be, in their order.

use serde_json::json;
use verifier_api::{Id, Judgement, Verdict};

use super::judge::Batch;
use super::request::BadItem;
use super::{JudgeItem, ProblemResponse, Service};

/// The items of a request.
pub(super) struct VerifyBatch {
    /// For each item, what it is answered if it is not judged.
    pub(super) refused: Vec<Option<Judgement>>,
    /// The items that are judged.
    pub(super) batch: Batch,
}

impl VerifyBatch {
    /// With `errors_by_item`, an item that cannot be used has a judgement that says so.
    ///
    /// # Errors
    /// The problem of the first bad item, if it has no id, or without `errors_by_item`.
    pub(super) fn new(
        service: &Service,
        items: Vec<Result<JudgeItem, BadItem>>,
        errors_by_item: bool,
    ) -> Result<VerifyBatch, ProblemResponse> {
        let mut refused = Vec::with_capacity(items.len());
        let mut judged = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Ok(item) => {
                    refused.push(None);
                    judged.push(item);
                }
                Err(BadItem {
                    id: Some(id),
                    problem,
                }) if errors_by_item => {
                    refused.push(Some(refusal(id, &problem)));
                }
                Err(BadItem { problem, .. }) => return Err(problem),
            }
        }
        Ok(VerifyBatch {
            refused,
            batch: Batch::new(service, judged),
        })
    }
}

/// The judgement of an item that cannot be used. It has no key, since nothing was judged.
fn refusal(id: Id, problem: &ProblemResponse) -> Judgement {
    let problem = problem.problem();
    Judgement {
        id,
        reward: None,
        verdict: Verdict::Unavailable,
        detail: json!({ "reason": problem.detail, "problem": problem }),
        passed: None,
        total: None,
        retryable: false,
        key: String::new(),
        cached: false,
        deterministic: true,
        elapsed_ms: 0.0,
    }
}

/// The judgements of all items of a request, of which those that are not `refused` were `judged`.
pub(super) fn in_order(refused: Vec<Option<Judgement>>, judged: Vec<Judgement>) -> Vec<Judgement> {
    let mut judged = judged.into_iter();
    refused
        .into_iter()
        .filter_map(|refusal| refusal.or_else(|| judged.next()))
        .collect()
}
