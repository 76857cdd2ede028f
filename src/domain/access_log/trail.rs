//! From hop to hop: the outermost line first; while it says that its upstream answered, the next
//! hop's.

use super::finding::{Finding, Told, read};
use super::{LogFacts, Trail};
use crate::domain::classify::{Responder, Tri};

/// One hop that was looked at.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) product: Responder,
    pub(crate) finding: Finding,
}

/// Where the trail led.
#[derive(Debug, Clone)]
pub(crate) struct Conclusion {
    /// The hops that were looked at, from the client's side inwards; never empty. All but the last
    /// say that their upstream answered.
    pub(crate) steps: Vec<Step>,
    /// Extra attempts that hops made by themselves; `None` where one of them does not say.
    pub(crate) retries: Option<u32>,
    /// Lines that can't be of this request, in words.
    pub(crate) misfits: Vec<String>,
}

impl Conclusion {
    /// The innermost hop that was looked at.
    pub(crate) fn last(&self) -> Option<&Step> {
        self.steps.last()
    }
}

/// Follows the lines of a request whose client got `status` (0 where that is not known).
pub(crate) fn conclude(trail: &Trail, status: u16) -> Conclusion {
    let mut conclusion = Conclusion { steps: Vec::new(), retries: None, misfits: Vec::new() };
    // What the next hop has to have answered, where that is known.
    let mut expected = (status >= 100).then_some(status);
    for lines in &trail.hops {
        // Of several tries, the last one was delivered.
        let Some(line) = lines.last() else { continue };
        if let (Some(wanted), Some(logged)) = (expected, line.status)
            && wanted != logged
        {
            conclusion.misfits.push(format!(
                "the line of {} says status {logged}, where {wanted} was received from it: it \
                 belongs to another request",
                line.product
            ));
            break;
        }
        let Some(mut finding) = read(line) else { break };
        if finding.contacted != Tri::Yes && lines.iter().any(has_contacted) {
            finding.contacted = Tri::Yes;
        }
        expected = finding.upstream_status;
        let goes_on = finding.told == Told::Upstream;
        conclusion.steps.push(Step { product: line.product, finding });
        if !goes_on {
            break;
        }
    }
    conclusion.retries = retries(trail, conclusion.steps.len());
    conclusion
}

/// Whether an earlier try of the same request went further in.
fn has_contacted(line: &LogFacts) -> bool {
    read(line).is_some_and(|finding| finding.contacted == Tri::Yes)
}

/// Extra attempts over the first `hops` hops: what the outermost hop repeated, or what arrived at
/// the innermost one less one, where that is more.
fn retries(trail: &Trail, hops: usize) -> Option<u32> {
    let mut most = None;
    for lines in trail.hops.iter().take(hops) {
        let tries = lines.iter().map(|line| read(line).and_then(|finding| finding.tries));
        let tries: Option<u32> = tries.sum();
        let retries = tries?.saturating_sub(1);
        most = Some(most.unwrap_or(0).max(retries));
    }
    most
}
