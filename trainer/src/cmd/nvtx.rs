//! Ranges in NVIDIA's profilers for the engine's phases: one for each of the engine's spans.

use std::ffi::CString;

use engine::backend::cuda::nvtx::Ranges;
use tracing::{Subscriber, span};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The layer that reports to a profiler when the engine's spans are entered and left.
pub(super) fn layer<S>(ranges: Ranges) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let engine = Targets::new().with_target("engine", LevelFilter::INFO);
    RangesLayer(ranges).with_filter(engine)
}

struct RangesLayer(Ranges);

impl<S> Layer<S> for RangesLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_enter(&self, id: &span::Id, context: Context<'_, S>) {
        let name = context.span(id).map_or("", |span| span.name());
        // Span names are literals in the sources, without a zero byte.
        self.0.push(&CString::new(name).unwrap_or_default());
    }

    fn on_exit(&self, _: &span::Id, _: Context<'_, S>) {
        self.0.pop();
    }
}
