//! Bytes to events: a file per input format. Knows neither the web nor the store.
