//! Structured logs: text for a person at a terminal, one JSON object a line otherwise.
//!
//! The binary decides where the level comes from (a flag, `GANTRY_LOG`) and passes it in;
//! nothing here reads the environment.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The environment variable that the binary reads for the filter.
pub const FILTER_VARIABLE: &str = "GANTRY_LOG";

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One line of text, with colours.
    Text,
    /// One JSON object a line.
    Json,
}

impl Format {
    /// Text where standard error is a terminal, JSON elsewhere.
    #[must_use]
    pub fn for_stderr() -> Self {
        if std::io::stderr().is_terminal() { Self::Text } else { Self::Json }
    }
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The filter is not one.
    #[error(
        "log filter {filter:?} is not valid: {reason}; use a level (error, warn, info, debug, \
         trace), or levels by module such as `info,chassis::reflector=debug`"
    )]
    Filter {
        /// The filter as given.
        filter: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another subscriber is already there.
    #[error("logging was already set up in this process")]
    Twice,
}

/// Sets up logging for the process, to standard error.
///
/// # Errors
/// When `filter` is not valid, or logging was set up before.
pub fn init(format: Format, filter: &str) -> Result<(), LoggingError> {
    let subscriber = subscriber(format, filter, std::io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LoggingError::Twice)
}

/// A subscriber that writes to `writer`; [`init`] is this, for the whole process.
///
/// # Errors
/// When `filter` is not valid.
pub fn subscriber<W>(
    format: Format,
    filter: &str,
    writer: W,
) -> Result<Box<dyn tracing::Subscriber + Send + Sync>, LoggingError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = parse(filter)?;
    // A line that cannot be written is lost; to complain of it on standard error would panic there.
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .log_internal_errors(false);
    Ok(match format {
        Format::Text => Box::new(builder.with_target(false).compact().finish()),
        Format::Json => Box::new(builder.json().flatten_event(true).finish()),
    })
}

fn parse(filter: &str) -> Result<EnvFilter, LoggingError> {
    let refused = |reason: String| LoggingError::Filter { filter: filter.to_owned(), reason };
    // `EnvFilter` reads a bare unknown word as the name of a target, which would turn a
    // mistyped level into silence.
    for directive in filter.split(',').map(str::trim) {
        let is_word = !directive.is_empty() && directive.chars().all(|c| c.is_ascii_alphanumeric());
        if is_word && directive.parse::<tracing_subscriber::filter::LevelFilter>().is_err() {
            return Err(refused(format!("{directive:?} is not a level")));
        }
    }
    EnvFilter::builder().parse(filter).map_err(|error| refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(format: Format, filter: &str) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = subscriber(format, filter, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(pod = "shop/web-0", "pod bound");
            tracing::debug!("not wanted");
        });
        String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn json_lines_carry_the_fields_at_the_top() {
        let line = written(Format::Json, "info");
        let value: serde_json::Value = serde_json::from_str(line.trim_end()).unwrap();
        assert_eq!(value["pod"], "shop/web-0");
        assert_eq!(value["message"], "pod bound");
        assert_eq!(value["level"], "INFO");
    }

    #[test]
    fn text_lines_are_one_a_event_and_filtered() {
        let text = written(Format::Text, "info");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("pod bound"), "{text}");
        assert_eq!(written(Format::Text, "off"), "");
    }

    #[test]
    fn a_mistyped_level_is_refused_and_named() {
        for (filter, ok) in [
            ("info", true),
            ("info,chassis=debug", true),
            ("off", true),
            ("inof", false),
            ("info,chassis=loud", false),
        ] {
            let result = parse(filter);
            assert_eq!(result.is_ok(), ok, "{filter}");
            if let Err(error) = result {
                assert!(error.to_string().contains(filter), "{error}");
            }
        }
    }
}
