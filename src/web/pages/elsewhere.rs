//! Where an empty view's attempts are: a window without any names when the scope's last one was
//! sent, so that old recordings and wrong clocks are found.

use super::address;
use super::model::Stamp;
use crate::domain::stored::{RowFilter, TimeBasis, View};
use crate::domain::time::{Millis, UnixMillis, Window};
use crate::store::StoreError;
use crate::web::AppState;

/// The times that events can have: 2000 to 2100, as they are accepted.
const ALWAYS: Window =
    Window { from: UnixMillis(946_684_800_000), to: UnixMillis(4_102_444_800_000) };

/// An attempt of a view's scope outside of its window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elsewhere {
    /// When it was sent, by event time.
    pub at: Stamp,
    /// Whether that is after the window's end.
    pub is_later: bool,
    /// The hour that ends with it, in the same scope.
    pub view: View,
}

impl Elsewhere {
    /// The newest client attempt of the scope before the end of the window, else the newest of
    /// all; `None` where none was ever stored.
    pub(crate) async fn find(state: &AppState, view: &View) -> Result<Option<Self>, StoreError> {
        let before = Window { from: ALWAYS.from, to: view.window.to.min(ALWAYS.to) };
        for (window, is_later) in [(before, false), (ALWAYS, true)] {
            let view = View { scope: view.scope.clone(), window, time: TimeBasis::Event };
            let filter =
                RowFilter { view, limited: None, retry: None, succeeded: None, value: None };
            let page = state.store.rows(&filter, None, 1).await?;
            if let Some(newest) = page.items.first() {
                return Ok(Some(Self::at(&filter.view, newest.event.occurred_at, is_later)));
            }
        }
        Ok(None)
    }

    /// The hour that ends with `at`, in the scope of `view`.
    pub(crate) fn at(view: &View, at: UnixMillis, is_later: bool) -> Self {
        let window = address::last_hour(at.plus(Millis(1)));
        let view = View { window, time: TimeBasis::Event, scope: view.scope.clone() };
        Self { at: Stamp(at), is_later, view }
    }

    /// The words before its time.
    pub fn lead(&self) -> &'static str {
        if self.is_later { "The newest one was sent later, at" } else { "The last one was sent at" }
    }
}
