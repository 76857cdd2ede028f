//! `retrylens classify`: who wrote this response?

use crate::domain::classify::{Verdict, classify};
use crate::domain::response::Response;
use crate::export::verdict::{Answer, text};
use crate::ingest::case::{self, Case};
use crate::ingest::har;
use anyhow::Context as _;
use serde_json::Value;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Most bytes that are read of one response or HAR file.
const INPUT_CAP: u64 = 128 * 1024 * 1024;
/// Longest line that is read with `--ndjson`, in bytes.
const LINE_CAP: usize = 8 * 1024 * 1024;

/// Say who returned a response, which limit it was and what to do.
///
/// Reads one response as `curl -i` or `curl -v` print it, raw HTTP text, a line of a gateway's
/// access log, or a HAR file (every limited or failed exchange). Exit status: 0 when everything was judged, 1 when something could
/// not be read, 2 for wrong usage.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// File to read; standard input when absent or `-`.
    file: Option<PathBuf>,
    /// How to print the verdict.
    #[arg(long, value_enum, default_value_t = Format::Text, conflicts_with = "ndjson")]
    format: Format,
    /// Read an object `{"id","raw",…}` a line and write a verdict a line.
    #[arg(long, conflicts_with = "har")]
    ndjson: bool,
    /// Read the input as a HAR file; seen by itself as a rule.
    #[arg(long)]
    har: bool,
}

#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// For people; fit to paste into a chat.
    Text,
    /// For programs.
    Json,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let source: Box<dyn io::Read> = match &args.file {
        Some(path) if path.as_os_str() != "-" => {
            let file =
                File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            Box::new(file)
        }
        _ => Box::new(io::stdin().lock()),
    };
    let input = BufReader::with_capacity(64 * 1024, source);
    let mut output = BufWriter::with_capacity(64 * 1024, io::stdout().lock());
    let all_read =
        if args.ndjson { lines(input, &mut output)? } else { whole(input, args, &mut output)? };
    output.flush()?;
    Ok(if all_read { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Judges a line at a time; a bad line is answered with an error and costs only itself.
fn lines(mut input: BufReader<impl io::Read>, output: &mut impl Write) -> anyhow::Result<bool> {
    let mut all_read = true;
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        let Some(is_whole) = next_line(&mut input, &mut line)? else { break };
        let text = String::from_utf8_lossy(&line);
        if text.trim().is_empty() {
            continue;
        }
        let read = if is_whole {
            case::read(&text)
        } else {
            let reason = format!("the line is longer than {LINE_CAP} bytes");
            Err(case::CaseError { id: Value::Null, field: None, reason })
        };
        match read {
            Ok(case) => {
                let verdict = classify(&case.response);
                serde_json::to_writer(&mut *output, &answer(&case, &verdict))
                    .map_err(io::Error::from)?;
            }
            Err(error) => {
                all_read = false;
                let answer = serde_json::json!({
                    "id": error.id, "line": number, "field": error.field, "error": error.reason,
                });
                serde_json::to_writer(&mut *output, &answer).map_err(io::Error::from)?;
            }
        }
        output.write_all(b"\n")?;
        // A sender that waits for the answer gets it; one that pours lines in is not slowed.
        if input.buffer().is_empty() {
            output.flush()?;
        }
    }
    Ok(all_read)
}

/// Reads up to and without the next line end: `None` at the end of the input, `false` where the
/// line was longer than the cap and its rest was skipped.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    let mut seen = false;
    let mut is_whole = true;
    loop {
        let buffer = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if buffer.is_empty() {
            return Ok(seen.then_some(is_whole));
        }
        seen = true;
        let (part, used, ends) = match buffer.iter().position(|b| *b == b'\n') {
            Some(at) => (buffer.get(..at).unwrap_or_default(), at.saturating_add(1), true),
            None => (buffer, buffer.len(), false),
        };
        if line.len().saturating_add(part.len()) <= LINE_CAP {
            line.extend_from_slice(part);
        } else {
            is_whole = false;
        }
        input.consume(used);
        if ends {
            return Ok(Some(is_whole));
        }
    }
}

/// Judges one response, or every limited or failed exchange of a HAR file.
fn whole(input: impl BufRead, args: &Args, output: &mut impl Write) -> anyhow::Result<bool> {
    let mut bytes = Vec::new();
    input.take(INPUT_CAP).read_to_end(&mut bytes).context("cannot read the input")?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length == INPUT_CAP) {
        anyhow::bail!("the input is larger than {} MiB", INPUT_CAP / 1024 / 1024);
    }
    let text = decode(&bytes);
    if args.har || har::is_har(&text) {
        return exchanges(text.as_bytes(), args.format, output);
    }
    let case = case::of_text(&text)?;
    let verdict = classify(&case.response);
    match args.format {
        Format::Text => {
            output.write_all(text::render(&case.response, &verdict, &case.problems).as_bytes())?;
        }
        Format::Json => json(&answer(&case, &verdict), output)?,
    }
    Ok(true)
}

fn exchanges(bytes: &[u8], format: Format, output: &mut impl Write) -> anyhow::Result<bool> {
    let entries = har::entries(bytes)?;
    let judged: Vec<(&har::HarEntry, Verdict)> = entries
        .iter()
        .map(|entry| (entry, classify(&entry.response)))
        .filter(|(entry, verdict)| verdict.limited || is_failed(&entry.response))
        .collect();
    match format {
        Format::Json => {
            let answers: Vec<Answer<'_>> = judged
                .iter()
                .map(|(entry, verdict)| Answer {
                    index: Some(entry.index),
                    url: Some(&entry.url),
                    ..Answer::new(Value::from(entry.index), &entry.response, verdict)
                })
                .collect();
            json(&answers, output)?;
        }
        Format::Text => {
            writeln!(
                output,
                "{} of {} exchanges were limited or failed.",
                judged.len(),
                entries.len()
            )?;
            for (entry, verdict) in &judged {
                let method = entry.response.request.method.as_deref().unwrap_or("GET");
                // People count from 1.
                let number = entry.index.saturating_add(1);
                let head = format!("Exchange {number}: {method} {}", entry.url);
                writeln!(output, "\n{}", text::line(&head))?;
                output.write_all(text::render(&entry.response, verdict, &[]).as_bytes())?;
            }
        }
    }
    Ok(true)
}

fn is_failed(response: &Response) -> bool {
    response.status.is_some_and(|status| status >= 400)
}

fn answer<'a>(case: &'a Case, verdict: &'a Verdict) -> Answer<'a> {
    Answer { problems: &case.problems, ..Answer::new(case.id.clone(), &case.response, verdict) }
}

fn json(value: &impl serde::Serialize, output: &mut impl Write) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *output, value).map_err(io::Error::from)?;
    Ok(output.write_all(b"\n")?)
}

/// Bytes as text. Windows shells redirect as UTF-16 with a byte order mark; anything else is read
/// as UTF-8 with bad bytes replaced.
fn decode(bytes: &[u8]) -> Cow<'_, str> {
    let units = |from: fn([u8; 2]) -> u16| -> String {
        let pairs = bytes.chunks_exact(2).skip(1);
        let units = pairs.filter_map(|pair| pair.try_into().ok()).map(from);
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    };
    match bytes {
        [0xff, 0xfe, ..] => Cow::Owned(units(u16::from_le_bytes)),
        [0xfe, 0xff, ..] => Cow::Owned(units(u16::from_be_bytes)),
        _ => String::from_utf8_lossy(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_16_from_a_windows_shell_is_read() {
        let bytes: Vec<u8> = [0xff, 0xfe]
            .into_iter()
            .chain("HTTP/1.1 429 X".encode_utf16().flat_map(u16::to_le_bytes))
            .collect();
        assert_eq!(decode(&bytes), "HTTP/1.1 429 X");
    }

    #[test]
    fn a_line_beyond_the_cap_is_skipped_and_the_next_is_read() {
        let mut input = vec![b'x'; LINE_CAP + 10];
        input.extend_from_slice(b"\nshort\n");
        let mut reader = io::Cursor::new(input);
        let mut line = Vec::new();
        assert_eq!(next_line(&mut reader, &mut line).unwrap(), Some(false));
        line.clear();
        assert_eq!(next_line(&mut reader, &mut line).unwrap(), Some(true));
        assert_eq!(line, b"short");
        assert_eq!(next_line(&mut reader, &mut line).unwrap(), None);
    }
}
