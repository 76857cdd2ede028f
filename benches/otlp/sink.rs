//! A file behind an OTLP exporter: each body is appended to it, its length before it.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

const NAME: &str = "spans";

/// Takes exports and writes them to a file in `folder`, until this process ends.
pub(crate) fn start(folder: &Path) -> SocketAddr {
    let file = Arc::new(Mutex::new(File::create(folder.join(NAME)).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let file = Arc::clone(&file);
            std::thread::spawn(move || serve(stream, &file));
        }
    });
    address
}

/// Takes requests with a length, one after another; an error ends the connection.
fn serve(stream: TcpStream, file: &Mutex<File>) -> std::io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let mut file = file.lock().unwrap();
        file.write_all(&u64::try_from(length).unwrap().to_be_bytes())?;
        file.write_all(&body)?;
        drop(file);
        writer.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n",
        )?;
    }
}

/// Spans in the file of `folder`.
pub(crate) fn kept(folder: &Path) -> usize {
    let bytes = std::fs::read(folder.join(NAME)).unwrap();
    let (mut rest, mut kept) = (bytes.as_slice(), 0);
    while let Some((length, behind)) = rest.split_first_chunk::<8>() {
        let length = usize::try_from(u64::from_be_bytes(*length)).unwrap();
        let Some((body, behind)) = behind.split_at_checked(length) else { break };
        // It packs what it sends, whatever it is told.
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(body).read_to_end(&mut unpacked).unwrap();
        let request = ExportTraceServiceRequest::decode(unpacked.as_slice()).unwrap();
        let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        kept += scopes.map(|scope| scope.spans.len()).sum::<usize>();
        rest = behind;
    }
    kept
}
