//! Tables of what servers send, and properties that hold for every text.

use super::*;
use proptest::prelude::*;

/// The `Date` of the responses below, and the same moment.
const DATE: &str = "Sun, 29 Nov 2026 22:00:00 GMT";

fn date() -> UnixMillis {
    UnixMillis::parse_rfc3339("2026-11-29T22:00:00Z").unwrap()
}

fn of(fields: &[(&str, &str)]) -> Reading {
    read(&fields.iter().copied().collect(), None)
}

/// Reads one line beside [`DATE`].
fn line(value: &str) -> Reading {
    of(&[("date", DATE), ("retry-after", value)])
}

fn words(reading: &Reading) -> Vec<&'static str> {
    reading.flags.iter().map(|flag| flag.as_str()).collect()
}

fn seconds(delay: Option<Millis>) -> Option<f64> {
    delay.map(Millis::as_secs_f64)
}

/// One line, its strict wait and its lenient wait in seconds, and its flags.
type Row<'a> = (&'a str, Option<f64>, Option<f64>, &'a [&'a str]);

fn check(rows: &[Row<'_>]) {
    for (value, strict, lenient, flags) in rows {
        let reading = line(value);
        assert_eq!(seconds(reading.strict_delay), *strict, "strict of {value:?}");
        assert_eq!(seconds(reading.lenient_delay), *lenient, "lenient of {value:?}");
        assert_eq!(words(&reading), *flags, "flags of {value:?}");
        assert_eq!(reading.is_compliant(), strict.is_some(), "compliance of {value:?}");
        assert_eq!(reading.raw, [value.trim()], "raw is kept");
    }
}

#[test]
fn what_the_standard_allows_carries_no_flag() {
    check(&[
        ("0", Some(0.0), Some(0.0), &[]),
        ("7", Some(7.0), Some(7.0), &[]),
        ("007", Some(7.0), Some(7.0), &[]),
        ("00000000000000000000000000120", Some(120.0), Some(120.0), &[]),
        ("86400", Some(86_400.0), Some(86_400.0), &[]),
        ("Sun, 29 Nov 2026 22:01:50 GMT", Some(110.0), Some(110.0), &[]),
        ("Sunday, 29-Nov-26 22:01:50 GMT", Some(110.0), Some(110.0), &[]),
        ("Sun Nov 29 22:01:50 2026", Some(110.0), Some(110.0), &[]),
        ("Tue Dec  1 22:00:00 2026", Some(172_800.0), Some(172_800.0), &[]),
    ]);
}

#[test]
fn a_decimal_or_negative_number_is_read_and_flagged() {
    check(&[
        ("2.0", None, Some(2.0), &["float"]),
        ("1.5", None, Some(1.5), &["float"]),
        ("0.0001", None, Some(0.001), &["float"]),
        ("-5", None, Some(0.0), &["negative"]),
        ("-1.5", None, Some(0.0), &["float", "negative"]),
        ("100000.5", None, Some(100_000.5), &["float", "implausible"]),
    ]);
}

#[test]
fn a_number_with_its_unit_is_read_and_flagged() {
    check(&[
        ("30s", None, Some(30.0), &["unit_suffix"]),
        ("2.0s", None, Some(2.0), &["unit_suffix"]),
        ("500ms", None, Some(0.5), &["unit_suffix"]),
        ("30 seconds", None, Some(30.0), &["unit_suffix"]),
        ("2 MINUTES", None, Some(120.0), &["unit_suffix"]),
        ("1m23s", None, Some(83.0), &["unit_suffix"]),
        ("6m0s", None, Some(360.0), &["unit_suffix"]),
        ("1h", None, Some(3600.0), &["unit_suffix"]),
        ("1.5s", None, Some(1.5), &["unit_suffix"]),
        ("250µs", None, Some(0.001), &["unit_suffix"]),
        ("12ns", None, Some(0.001), &["unit_suffix"]),
    ]);
}

#[test]
fn a_number_that_counts_from_1970_is_a_moment() {
    let epoch = date().0 / 1000 + 110;
    check(&[
        (&epoch.to_string(), Some(epoch_f64(epoch)), Some(110.0), &["epoch_s"]),
        (&format!("{epoch}000"), Some(epoch_f64(epoch) * 1000.0), Some(110.0), &["epoch_ms"]),
        (&format!("{epoch}.25"), None, Some(110.25), &["float", "epoch_s"]),
        ("1000000000", Some(1e9), Some(0.0), &["epoch_s", "past"]),
        ("1795987809000000", Some(1_795_987_809_000_000.0), None, &["implausible"]),
    ]);
    assert!(!line(&epoch.to_string()).by_date, "strictly it is a number of seconds");
}

fn epoch_f64(seconds: i64) -> f64 {
    Millis::from_secs(seconds).as_secs_f64()
}

#[test]
fn iso_8601_is_read_and_flagged() {
    check(&[
        ("2026-11-29T22:01:50Z", None, Some(110.0), &["iso8601"]),
        ("2026-11-29T23:01:50+01:00", None, Some(110.0), &["iso8601"]),
        ("2026-11-29T22:01:50.5Z", None, Some(110.5), &["iso8601"]),
        ("2026-11-29 22:01:50", None, Some(110.0), &["iso8601"]),
        ("2026-11-30", None, Some(7200.0), &["iso8601"]),
        ("2026-11-29T21:38:22Z", None, Some(0.0), &["iso8601", "past"]),
        ("PT30S", None, Some(30.0), &["iso_duration"]),
        ("PT1M30.5S", None, Some(90.5), &["iso_duration"]),
        ("P1DT1H", None, Some(90_000.0), &["iso_duration"]),
        ("P1Y", None, None, &["text"]),
        ("PT", None, None, &["text"]),
        ("P", None, None, &["text"]),
    ]);
}

#[test]
fn eight_digits_are_a_date_only_near_the_base() {
    check(&[
        ("20261201", Some(20_261_201.0), Some(93_600.0), &["calendar_int"]),
        ("20261129", Some(20_261_129.0), Some(0.0), &["calendar_int", "past"]),
        ("20261301", Some(20_261_301.0), Some(20_261_301.0), &["implausible"]),
        ("20501201", Some(20_501_201.0), Some(20_501_201.0), &["implausible"]),
    ]);
    assert_eq!(words(&of(&[("retry-after", "20261201")])), ["implausible"]);
}

#[test]
fn nothing_and_words_mean_nothing() {
    check(&[
        ("", None, None, &["empty"]),
        ("   ", None, None, &["empty"]),
        (",", None, None, &["empty"]),
        ("a while", None, None, &["text"]),
        ("soon", None, None, &["text"]),
        ("Sun", None, None, &["text"]),
        ("null", None, None, &["text"]),
        ("1e3", None, None, &["non_decimal"]),
        ("0x10", None, None, &["non_decimal"]),
        ("+7", None, None, &["non_decimal"]),
        ("1_000", None, None, &["non_decimal"]),
        ("٧", None, None, &["non_decimal"]),
        ("７", None, None, &["non_decimal"]),
        ("5.", None, None, &["non_decimal"]),
    ]);
}

#[test]
fn digits_beyond_counting_overflow() {
    check(&[
        ("9999999999999999999", None, None, &["overflow"]),
        ("18446744073709551616", None, None, &["overflow"]),
        (&"9".repeat(10_000), None, None, &["overflow"]),
    ]);
    let reading = line("999999999999999999");
    assert_eq!(reading.strict, Strict::Seconds(999_999_999_999_999_999));
    assert_eq!(reading.strict_delay, None, "it does not fit into milliseconds");
    assert_eq!(words(&reading), ["implausible", "overflow"]);
}

#[test]
fn other_dates_are_moments_with_flags() {
    check(&[
        ("Sun, 29 Nov 2026 17:01:50 EST", None, Some(110.0), &["zone"]),
        ("Mon, 30 Nov 2026 00:01:50 +0200", None, Some(110.0), &["zone"]),
        ("Mon, 30 Nov 2026 00:01:50 +02:00", None, Some(110.0), &["zone"]),
        ("Sun, 29 Nov 2026 14:01:50 -0800", None, Some(110.0), &["zone"]),
        ("Sun, 29 Nov 2026 22:01:50 UTC", None, Some(110.0), &["zone"]),
        ("29 Nov 2026 22:01:50 GMT", None, Some(110.0), &["date_form"]),
        ("sun, 29 nov 2026 22:01:50 gmt", None, Some(110.0), &["zone", "date_form"]),
        ("Mon, 29 Nov 2026 22:01:50 GMT", None, Some(110.0), &["date_form"]),
        ("Sun, 29 Nov 2026 22:01:50", None, Some(110.0), &["date_form"]),
        ("Sun, 29 Nov 2026 22:01:50.250 GMT", None, Some(110.25), &["date_form"]),
        ("Sun, 29-Nov-2026 22:01:50 GMT", None, Some(110.0), &["date_form"]),
        ("November 29, 2026 22:01:50", None, Some(110.0), &["date_form"]),
        ("Sun, 29 Nov 2026 22:01 GMT", None, Some(60.0), &["date_form"]),
        ("Sun, 31 Nov 2026 22:01:50 GMT", None, None, &["text"]),
        ("Sun, 29 Nov 2026 25:01:50 GMT", None, None, &["text"]),
        ("Sun, 29 Nov 2026 22:01:50 XYZ", None, None, &["text"]),
    ]);
}

#[test]
fn a_date_in_the_past_means_no_wait() {
    check(&[
        ("Sun, 29 Nov 2026 21:50:00 GMT", Some(0.0), Some(0.0), &["past"]),
        ("Sunday, 06-Nov-94 08:49:37 GMT", Some(0.0), Some(0.0), &["past"]),
    ]);
    let cached =
        of(&[("date", DATE), ("age", "600"), ("retry-after", "Sun, 29 Nov 2026 21:50:00 GMT")]);
    assert_eq!(words(&cached), ["past", "cached"]);
}

#[test]
fn a_list_on_one_line_is_invalid_and_its_longest_wait_is_meant() {
    check(&[
        ("7, 7", None, Some(7.0), &["duplicate_equal"]),
        ("7,07", None, Some(7.0), &["duplicate_equal"]),
        ("7, 60", None, Some(60.0), &["duplicate_conflict"]),
        ("60, 7, 8", None, Some(60.0), &["duplicate_conflict"]),
        ("soon, 60", None, Some(60.0), &["text", "duplicate_conflict"]),
        ("soon, soon", None, None, &["text", "duplicate_equal"]),
        (
            "Sun, 29 Nov 2026 22:01:50 GMT, Sun, 29 Nov 2026 22:01:50 GMT",
            None,
            Some(110.0),
            &["duplicate_equal"],
        ),
        (
            "Sun, 29 Nov 2026 22:01:50 GMT,Sun, 29 Nov 2026 22:02:00 GMT",
            None,
            Some(120.0),
            &["duplicate_conflict"],
        ),
        (
            "Sunday, 29-Nov-26 22:01:50 GMT, Sun Nov 29 22:01:50 2026",
            None,
            Some(110.0),
            &["duplicate_equal"],
        ),
        ("7, Sun, 29 Nov 2026 22:01:50 GMT", None, Some(110.0), &["duplicate_conflict"]),
    ]);
}

#[test]
fn of_several_lines_the_first_is_what_clients_take() {
    let conflict = of(&[("retry-after", "3"), ("retry-after", "60")]);
    assert_eq!(conflict.strict, Strict::Seconds(3));
    assert_eq!(seconds(conflict.lenient_delay), Some(60.0));
    assert_eq!(words(&conflict), ["duplicate_conflict"]);
    assert_eq!(conflict.raw, ["3", "60"]);
    assert!(!conflict.is_compliant());

    let equal = of(&[("retry-after", "7"), ("retry-after", "7")]);
    assert_eq!(equal.strict, Strict::Seconds(7));
    assert_eq!(words(&equal), ["duplicate_equal"]);

    let broken = of(&[("retry-after", "soon"), ("retry-after", "60")]);
    assert_eq!(broken.strict, Strict::Invalid);
    assert_eq!(seconds(broken.lenient_delay), Some(60.0));
}

#[test]
fn seconds_are_suspected_to_be_milliseconds_only_with_a_second_source() {
    let suspect = |fields: &[(&str, &str)]| {
        let mut all = vec![("date", DATE), ("retry-after", "30000")];
        all.extend_from_slice(fields);
        let reading = of(&all);
        assert_eq!(reading.strict, Strict::Seconds(30_000));
        assert_eq!(seconds(reading.strict_delay), Some(30_000.0));
        (seconds(reading.lenient_delay), reading.has(Flag::MsSuspect))
    };
    assert_eq!(suspect(&[]), (Some(30_000.0), false));
    assert_eq!(suspect(&[("ratelimit-reset", "30")]), (Some(30.0), true));
    assert_eq!(suspect(&[("ratelimit", "\"default\";r=0;t=30")]), (Some(30.0), true));
    assert_eq!(suspect(&[("ratelimit-policy", "100;w=60")]), (Some(30.0), true));
    assert_eq!(suspect(&[("ratelimit-reset", "30000")]), (Some(30_000.0), false));
    let in_half_a_minute = (date().0 / 1000 + 30).to_string();
    assert_eq!(suspect(&[("x-ratelimit-reset", &in_half_a_minute)]), (Some(30.0), true));
    assert_eq!(
        suspect(&[("ratelimit-reset", "0")]),
        (Some(30_000.0), false),
        "nothing is a thousandth of 0"
    );
}

#[test]
fn a_date_is_measured_against_the_server_first() {
    let at = "Sun, 29 Nov 2026 22:01:00 GMT";
    let here = date().plus(Millis::from_secs(3600));
    let fields: HeaderFields = [("date", DATE), ("retry-after", at)].into_iter().collect();
    let reading = read(&fields, Some(here));
    assert_eq!(reading.base, Base::Date);
    assert!(reading.by_date);
    assert_eq!(seconds(reading.strict_delay), Some(60.0));
    assert_eq!(reading.clock_skew, Some(Millis::from_secs(-3600)));
    assert_eq!(words(&reading), ["clock_skew"]);

    let fields: HeaderFields = [("retry-after", at)].into_iter().collect();
    let reading = read(&fields, Some(date().plus(Millis(500))));
    assert_eq!(reading.base, Base::Observed);
    assert_eq!(seconds(reading.strict_delay), Some(59.5));
    assert_eq!(words(&reading), ["no_server_date"]);

    let reading = read(&fields, None);
    assert_eq!(reading.base, Base::None);
    assert_eq!(reading.strict, Strict::Date(date().plus(Millis::from_secs(60))));
    assert_eq!(reading.strict_delay, None);
    assert_eq!(reading.lenient_delay, None);
    assert_eq!(words(&reading), ["no_server_date"]);

    let unreadable: HeaderFields =
        [("date", "yesterday"), ("retry-after", at)].into_iter().collect();
    assert_eq!(read(&unreadable, Some(date())).base, Base::Observed);

    let length: HeaderFields = [("retry-after", "7")].into_iter().collect();
    assert_eq!(read(&length, Some(date())).base, Base::None);
}

#[test]
fn age_shortens_what_remains_and_not_the_promise() {
    let reading = of(&[("date", DATE), ("age", "20"), ("retry-after", "60")]);
    assert_eq!(seconds(reading.strict_delay), Some(60.0));
    assert_eq!(seconds(reading.remaining), Some(40.0));
    assert_eq!(words(&reading), ["cached"]);

    let older = of(&[("age", "90"), ("retry-after", "60")]);
    assert_eq!(seconds(older.remaining), Some(0.0));

    let fresh = of(&[("age", "0"), ("retry-after", "60")]);
    assert_eq!(seconds(fresh.remaining), Some(60.0));
    assert!(fresh.flags.is_empty());

    let by_date =
        of(&[("date", DATE), ("age", "2"), ("retry-after", "Sun, 29 Nov 2026 22:01:00 GMT")]);
    assert_eq!(seconds(by_date.strict_delay), Some(60.0));
    assert_eq!(seconds(by_date.remaining), Some(58.0));

    let nonsense = of(&[("age", "-3"), ("retry-after", "60")]);
    assert_eq!(seconds(nonsense.remaining), Some(60.0));
}

#[test]
fn a_replay_without_age_leaves_the_rest_unknown() {
    for field in [
        ("cf-cache-status", "HIT"),
        ("x-cache", "HIT from proxy.example"),
        ("x-cache-status", "STALE"),
        ("cache-status", "ExampleCache; hit; ttl=30"),
    ] {
        let reading = of(&[field, ("retry-after", "60")]);
        assert_eq!(seconds(reading.strict_delay), Some(60.0), "{field:?}");
        assert_eq!(reading.remaining, None, "{field:?}");
        assert_eq!(words(&reading), ["cached"], "{field:?}");
    }
    for field in
        [("cf-cache-status", "DYNAMIC"), ("x-cache", "MISS"), ("x-cache", "Error from cloudfront")]
    {
        assert_eq!(seconds(of(&[field, ("retry-after", "60")]).remaining), Some(60.0));
    }
    let synthetic =
        of(&[("x-cache", "HIT"), ("x-served-by", "cache-ams1-AMS"), ("retry-after", "60")]);
    assert_eq!(seconds(synthetic.remaining), Some(60.0));
}

#[test]
fn another_name_stands_in_only_where_the_field_is_absent() {
    for (name, value, wait) in [
        ("retry-after-burst", "12", 12.0),
        ("retry-after-ms", "1500", 1.5),
        ("retry-after-ms", "1500.5", 1.501),
        ("x-ms-retry-after-ms", "50", 0.05),
        ("x-amz-retry-after", "2500", 2.5),
    ] {
        let reading = of(&[(name, value)]);
        assert_eq!(reading.strict, Strict::Absent, "{name}");
        assert_eq!(reading.strict_delay, None, "{name}");
        assert_eq!(seconds(reading.lenient_delay), Some(wait), "{name}");
        assert_eq!(reading.field.as_deref(), Some(name));
        assert!(reading.has(Flag::NonstandardName), "{name}");
        assert!(!reading.is_compliant(), "{name}");
    }
    let traefik = of(&[("x-retry-in", "54.2s")]);
    assert_eq!(seconds(traefik.lenient_delay), Some(54.2));
    let both = of(&[("retry-after-burst", "12"), ("retry-after", "3")]);
    assert_eq!(seconds(both.lenient_delay), Some(3.0));
    assert!(both.flags.is_empty());
}

#[test]
fn an_absent_field_says_nothing_but_the_skew_is_known() {
    let fields: HeaderFields = [("date", DATE)].into_iter().collect();
    let reading = read(&fields, Some(date().plus(Millis(-250))));
    assert_eq!(reading.strict, Strict::Absent);
    assert_eq!(reading.field, None);
    assert_eq!(reading.lenient_delay, None);
    assert_eq!(reading.clock_skew, Some(Millis(250)));
    assert!(reading.flags.is_empty());
}

#[test]
fn the_skew_of_a_replay_takes_its_age_into_account() {
    let fields: HeaderFields = [("date", DATE), ("age", "600")].into_iter().collect();
    let here = date().plus(Millis::from_secs(601));
    assert_eq!(read(&fields, Some(here)).clock_skew, Some(Millis::from_secs(-1)));
    let rewritten = read(&fields, Some(date())).clock_skew;
    assert_eq!(rewritten, Some(Millis(0)), "a cache may write its own date");
}

#[test]
fn every_flag_is_raised_by_some_example() {
    let mut raised: Vec<Flag> = Vec::new();
    let epoch = (date().0 / 1000 + 110).to_string();
    let epoch_ms = format!("{epoch}000");
    for value in [
        "1.5",
        "-5",
        "30s",
        &epoch,
        &epoch_ms,
        "2026-11-29T22:01:50Z",
        "PT30S",
        "20261201",
        "",
        "7, 7",
        "7, 60",
        "Sun, 29 Nov 2026 17:01:50 EST",
        "29 Nov 2026 22:01:50 GMT",
        "Sun, 29 Nov 2026 21:50:00 GMT",
        "a while",
        "1e3",
        "9999999999999999999",
        "100000",
    ] {
        raised.extend(line(value).flags);
    }
    raised.extend(of(&[("age", "5"), ("retry-after", "9")]).flags);
    raised.extend(of(&[("retry-after-login", "9")]).flags);
    raised.extend(of(&[("retry-after", "30000"), ("ratelimit-reset", "30")]).flags);
    let late = date().plus(Millis(9000));
    raised.extend(
        read(&[("date", DATE), ("retry-after", "9")].into_iter().collect(), Some(late)).flags,
    );
    let no_date = [("retry-after", "Sun, 29 Nov 2026 22:01:50 GMT")].into_iter().collect();
    raised.extend(read(&no_date, Some(late)).flags);
    for flag in Flag::ALL {
        assert!(raised.contains(flag), "no example raises {flag}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about time")]
fn a_very_long_value_is_read_in_bounded_time() {
    let started = std::time::Instant::now();
    for piece in ["9", "9,", "Sun,", "1s", "P", "-", "٧", "29 Nov ", "1:"] {
        let long = piece.repeat(100_000);
        assert_eq!(line(&long).raw.len(), 1);
    }
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

proptest! {
    #[test]
    fn arbitrary_lines_never_panic(
        lines in prop::collection::vec(any::<String>(), 0..4),
        date in any::<Option<String>>(),
        age in any::<Option<String>>(),
        observed in any::<Option<i64>>(),
    ) {
        let mut fields = HeaderFields::new();
        for value in &lines { fields.push("retry-after", value); }
        if let Some(date) = date { fields.push("date", &date); }
        if let Some(age) = age { fields.push("age", &age); }
        let _ = read(&fields, observed.map(UnixMillis));
    }

    #[test]
    fn lines_close_to_a_value_never_panic_and_no_wait_is_negative(
        value in "(-?[0-9]{1,40}(\\.[0-9]{0,5})?(ms|s|m|h|d|µs)?[, ]{0,2}|[PT0-9SMHDW.]{1,12}|(Sun|sunday|Mon)?,? ?[0-9]{1,2}[ -](Nov|feb|June)[ -][0-9]{2,4} [0-9:.]{4,12} ?(GMT|EST|[+-][0-9:]{4,5})?|[0-9T:.Z+-]{4,26}){1,3}",
        observed in any::<Option<i64>>(),
    ) {
        let mut fields = HeaderFields::new();
        fields.push("retry-after", &value);
        let reading = read(&fields, observed.map(UnixMillis));
        for wait in [reading.strict_delay, reading.lenient_delay, reading.remaining] {
            prop_assert!(wait.is_none_or(|wait| wait.0 >= 0), "{value}: {wait:?}");
        }
        if reading.strict == Strict::Invalid {
            prop_assert!(!reading.flags.is_empty(), "{value} is invalid without a reason");
        }
    }

    #[test]
    fn digits_of_any_length_read_as_their_number(number in any::<u32>(), zeros in 0_usize..50) {
        let text = format!("{}{number}", "0".repeat(zeros));
        prop_assert_eq!(line(&text).strict, Strict::Seconds(number.into()));
    }

    #[test]
    fn a_strict_value_and_its_lenient_twin_agree_below_a_day(number in 0_u64..=86_400) {
        let reading = line(&number.to_string());
        prop_assert_eq!(reading.strict_delay, reading.lenient_delay);
        prop_assert!(reading.flags.is_empty());
    }
}
