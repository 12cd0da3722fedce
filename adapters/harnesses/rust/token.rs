// Token verification, asked by draftproof over stdin and stdout (spec, chapter 13).
//
//     rustc --edition 2021 -O token.rs
//     ./token --vectors decisions.json
//     draftproof certify --harness ./token
//
// All arithmetic is in f64, and so are the rows and the noise that it asks for. With --seeded it
// asks for no noise, and makes its own from the seed of each request. With --vectors it holds its
// verifier to files of test vectors (spec/vectors), for which there need be no draftproof.
//
// Copy it, and put your own verifier in the place of verify(): the rest is the protocol.

use std::io::{self, BufRead, Write};
use std::process::exit;

// --- the verifier -------------------------------------------------------------------------------

struct Emission {
    accepted: usize,
    next: usize,
}

/// Accept each token with probability min(1, p/q); at the first rejection draw from (p - q)+, and
/// from the last p if there is none.
///
/// `drafted` has L tokens, `q` the draft's rows [L][V], `p` the target's [L + 1][V]; the L `coins`
/// and `u` are uniform on [0, 1). Source: arXiv 2211.17192, Algorithm 1.
fn verify(drafted: &[usize], q: &[&[f64]], p: &[&[f64]], coins: &[f64], u: f64) -> Emission {
    let accepted = (0..drafted.len())
        // Strictly: a coin of exactly 0 must not accept what the target never says.
        .take_while(|&i| coins[i] < p[i][drafted[i]] / q[i][drafted[i]])
        .count();
    let target = p[accepted];
    let wanted = q.get(accepted).map(|draft| excess(target, draft));
    // Nothing is wanted only where p and q differ by rounding.
    let next = wanted.and_then(|wanted| draw(&wanted, u));
    let next = next.unwrap_or_else(|| draw(target, u).expect("a row has weight"));
    Emission { accepted, next }
}

/// How much more of each token p wants than q gives.
fn excess(p: &[f64], q: &[f64]) -> Vec<f64> {
    p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).collect()
}

/// The first token at which the running sum exceeds u times the sum; None where all weights are 0.
fn draw(weights: &[f64], u: f64) -> Option<usize> {
    let mark = u * weights.iter().sum::<f64>();
    let (mut running, mut last) = (0.0, None);
    for (token, &weight) in weights.iter().enumerate() {
        if weight > 0.0 {
            running += weight;
            last = Some(token);
            if running > mark {
                break;
            }
        }
    }
    last
}

// --- the protocol: answering --------------------------------------------------------------------

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--vectors") {
        exit(i32::from(!are_met(&arguments[1..])));
    }
    let seeded = arguments.iter().any(|argument| argument == "--seeded");
    let mut out = io::stdout();
    for line in io::stdin().lock().lines() {
        let message = Json::read(&line.expect("standard input can be read"));
        let said = if message.get("start").is_some() {
            declaration(seeded)
        } else if let Some(request) = message.get("verify") {
            let sequence = request.number("sequence");
            // No message has a quote or a backslash in it, which JSON would want escaped.
            answer(request, seeded).unwrap_or_else(|message| {
                format!(r#"{{"error": {{"sequence": {sequence}, "message": "{message}"}}}}"#)
            })
        } else {
            break;
        };
        writeln!(out, "{said}").expect("standard output can be written");
        out.flush().expect("standard output can be written");
    }
}

fn declaration(seeded: bool) -> String {
    let named = r#""protocol": 1, "name": "rust-token", "version": "1.0", "algorithm": "token""#;
    let wanted = r#""tensors": "base64", "dtype": "float64""#;
    let noise = if seeded {
        "{}"
    } else {
        r#"{"coins": ["uniform", "L"], "token": ["uniform"]}"#
    };
    format!(r#"{{"declaration": {{{named}, {wanted}, "noise": {noise}}}}}"#)
}

/// The answer to a request, or why it is refused: invalid input is answered with an error.
fn answer(request: &Json, seeded: bool) -> Result<String, String> {
    let [sequence, rows, length, vocabulary] =
        ["sequence", "rows", "length", "vocabulary"].map(|name| request.number(name));
    let tokens = integers(request, "draft_tokens", &[rows, 1, length])?;
    let q = floats(request, "draft_probs", &[rows, 1, length, vocabulary])?;
    let p = floats(request, "target_probs", &[rows, 1, length + 1, vocabulary])?;
    let (coins, u) = if seeded {
        let mut bits = request.number("seed") as u64;
        let mut drawn = |count| (0..count).map(|_| uniform(&mut bits)).collect::<Vec<f64>>();
        (drawn(rows * length), drawn(rows))
    } else {
        let noise = request.get("noise").ok_or("noise is not there")?;
        (
            floats(noise, "coins", &[rows, length])?,
            floats(noise, "token", &[rows])?,
        )
    };

    let q: Vec<&[f64]> = q.chunks(vocabulary).collect();
    let p: Vec<&[f64]> = p.chunks(vocabulary).collect();
    require_laws("draft_probs", &q)?;
    require_laws("target_probs", &p)?;
    let drafted = drafted(&tokens, &q, vocabulary)?;

    let emissions: Vec<_> = (0..rows)
        .map(|b| {
            let own = b * length..(b + 1) * length;
            let rows = own.start + b..own.end + b + 1; // the target has one more
            let (drafted, q) = (&drafted[own.clone()], &q[own.clone()]);
            verify(drafted, q, &p[rows], &coins[own], u[b])
        })
        .collect();
    let accepted: Vec<usize> = emissions.iter().map(|each| each.accepted).collect();
    let next: Vec<usize> = emissions.iter().map(|each| each.next).collect();
    let path = vec![0; rows]; // there is one
    let kept = format!(r#""accepted_length": {accepted:?}, "path": {path:?}"#);
    Ok(format!(
        r#"{{"result": {{"sequence": {sequence}, {kept}, "next_token": {next:?}}}}}"#
    ))
}

/// The next number on [0, 1): splitmix64, of Steele, Lea and Flood, OOPSLA 2014.
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
}

// --- the protocol: checking ---------------------------------------------------------------------

fn require_laws(name: &str, rows: &[&[f64]]) -> Result<(), String> {
    for (i, row) in rows.iter().enumerate() {
        if let Some(wrong) = row.iter().find(|&&x| x.is_nan() || x < 0.0) {
            return Err(format!("{name}: {wrong} in row {i} is no probability"));
        }
        let sum: f64 = row.iter().sum();
        // What a softmax in float32 is off by, at most: one rounding for every token.
        let allowed = row.len() as f64 * f64::from(f32::EPSILON) / 2.0;
        if (sum - 1.0).abs() > allowed {
            return Err(format!("{name}: row {i} sums to {sum}, not to 1"));
        }
    }
    Ok(())
}

/// The tokens as what they are, places in a row. `q` has a row for each.
fn drafted(tokens: &[i64], q: &[&[f64]], vocabulary: usize) -> Result<Vec<usize>, String> {
    let places = tokens.iter().zip(q).map(|(&token, row)| {
        let last = vocabulary - 1;
        match usize::try_from(token) {
            Ok(place) if place <= last && row[place] > 0.0 => Ok(place),
            Ok(place) if place <= last => Err(format!("drafted token {token} has probability 0")),
            _ => Err(format!("drafted token {token} is not in 0..{last}")),
        }
    });
    places.collect()
}

// --- the protocol: reading ----------------------------------------------------------------------

fn integers(within: &Json, name: &str, shape: &[usize]) -> Result<Vec<i64>, String> {
    Ok(elements(within, name, shape)?
        .map(i64::from_le_bytes)
        .collect())
}

fn floats(within: &Json, name: &str, shape: &[usize]) -> Result<Vec<f64>, String> {
    Ok(elements(within, name, shape)?
        .map(f64::from_le_bytes)
        .collect())
}

/// The elements of a tensor, 8 bytes each, in row-major order. The tensor must have this shape.
fn elements(
    within: &Json,
    name: &str,
    shape: &[usize],
) -> Result<impl Iterator<Item = [u8; 8]>, String> {
    let found = within.get(name).ok_or(format!("{name} is not there"))?;
    let sides = found.get("shape").map_or(vec![], Json::integers);
    if sides != shape {
        return Err(format!("{name} has the shape {sides:?}, not {shape:?}"));
    }
    let data = from_base64(found.word("data"));
    let count = data.len() / 8;
    Ok((0..count).map(move |i| data[8 * i..8 * i + 8].try_into().expect("8 bytes")))
}

fn from_base64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0u32, 0);
    for digit in text.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => break, // the padding
        };
        (bits, count) = (bits << 6 | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    bytes
}

/// JSON, as far as the protocol goes.
enum Json {
    Word, // null, true or false
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Read a line. One that is no JSON ends the program: draftproof tells its last words.
    fn read(line: &str) -> Json {
        Reader { text: line, at: 0 }.value()
    }

    fn get(&self, name: &str) -> Option<&Json> {
        let member = match self {
            Json::Object(members) => members.iter().find(|(key, _)| key == name),
            _ => None,
        };
        member.map(|(_, value)| value)
    }

    /// The integer of this name, below 2^53 as all are; 0 where there is none.
    fn number(&self, name: &str) -> usize {
        self.get(name).map_or(0, Json::integer)
    }

    fn integer(&self) -> usize {
        match self {
            Json::Number(number) => *number as usize,
            _ => 0,
        }
    }

    fn integers(&self) -> Vec<usize> {
        self.items().iter().map(Json::integer).collect()
    }

    fn list(&self, name: &str) -> &[Json] {
        self.get(name).map_or(&[], Json::items)
    }

    fn word(&self, name: &str) -> &str {
        self.get(name).map_or("", Json::text)
    }

    fn items(&self) -> &[Json] {
        match self {
            Json::List(items) => items,
            _ => &[],
        }
    }

    fn text(&self) -> &str {
        match self {
            Json::Text(text) => text,
            _ => "",
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self) -> Json {
        match self.peek() {
            '{' => Json::Object(self.members('}', |reader| {
                let key = reader.string();
                reader.expect(':');
                (key, reader.value())
            })),
            '[' => Json::List(self.members(']', Reader::value)),
            '"' => Json::Text(self.string()),
            _ => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
                let rest = &self.text[self.at..];
                let word = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
                self.at += word.len();
                match word {
                    "null" | "true" | "false" => Json::Word,
                    _ => Json::Number(word.parse().unwrap_or_else(|_| self.fail("a value"))),
                }
            }
        }
    }

    /// What stands between brackets and commas, of which `end` is the last.
    fn members<T>(&mut self, end: char, one: fn(&mut Self) -> T) -> Vec<T> {
        let mut found = Vec::new();
        self.at += 1;
        while self.peek() != end {
            if !found.is_empty() {
                self.expect(',');
            }
            found.push(one(self));
        }
        self.expect(end);
        found
    }

    /// A string. What is escaped in it is left as it is: no name and no tensor has such characters.
    fn string(&mut self) -> String {
        self.expect('"');
        let start = self.at;
        let mut escaped = false;
        for (place, c) in self.text[start..].char_indices() {
            if c == '"' && !escaped {
                self.at = start + place + 1;
                return self.text[start..start + place].to_string();
            }
            escaped = c == '\\' && !escaped;
        }
        self.fail("the end of a string")
    }

    /// The next character that is no space; at the end of the line, one that JSON has not.
    fn peek(&mut self) -> char {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest.chars().next().unwrap_or('\0')
    }

    fn expect(&mut self, wanted: char) {
        if self.peek() != wanted {
            self.fail::<()>(&format!("{wanted:?}"));
        }
        self.at += 1;
    }

    fn fail<T>(&self, wanted: &str) -> T {
        panic!("this is no JSON: {wanted} belongs at character {}", self.at)
    }
}

// --- test vectors -------------------------------------------------------------------------------

/// Whether the verifier emits on the numbers of every decision vector what it says.
fn are_met(files: &[String]) -> bool {
    let (mut met, mut missed) = (0, 0);
    for file in files {
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let document = Json::read(&text);
        for vector in document.list("vectors") {
            if vector.word("algorithm") != "token" {
                continue;
            }
            let instances = document.get("instances").expect("a file has its instances");
            let instance = instances.get(vector.word("instance"));
            if is_met(vector, instance.expect("it is one of them")) {
                met += 1;
            } else {
                missed += 1;
                eprintln!("missed: {}", vector.word("id"));
            }
        }
    }
    println!("{met} vectors met, {missed} missed");
    met > 0 && missed == 0
}

fn is_met(vector: &Json, instance: &Json) -> bool {
    let drafted = vector.list("paths")[0].integers();
    let along = |model: &str, depths: usize| -> Vec<Vec<f64>> {
        let model = instance.get(model).expect("an instance has both models");
        (0..depths).map(|i| row(model, &drafted[..i])).collect()
    };
    let (q, p) = (
        along("draft", drafted.len()),
        along("target", drafted.len() + 1),
    );
    let q: Vec<&[f64]> = q.iter().map(Vec::as_slice).collect();
    let p: Vec<&[f64]> = p.iter().map(Vec::as_slice).collect();
    vector.list("runs").iter().all(|run| {
        // The last number draws the next token; those before it are coins, as many as are tossed.
        let mut coins: Vec<f64> = run.list("numbers").iter().map(rational).collect();
        let u = coins.pop().expect("a token is drawn");
        coins.resize(drafted.len(), 0.0);
        let emission = verify(&drafted, &q, &p, &coins, u);
        run.get("emits").map(Json::integers) == Some(vec![0, emission.accepted, emission.next])
    })
}

/// A model's row after a context: it has one for all of them, or one for each.
fn row(model: &Json, context: &[usize]) -> Vec<f64> {
    let name: Vec<String> = context.iter().map(usize::to_string).collect();
    let found = model.get(&name.join(",")).unwrap_or(model);
    found.items().iter().map(rational).collect()
}

/// A number such as "7/9".
fn rational(number: &Json) -> f64 {
    let parsed = |digits: &str| digits.parse::<f64>().expect("a rational number");
    match number.text().split_once('/') {
        Some((above, below)) => parsed(above) / parsed(below),
        None => parsed(number.text()),
    }
}
