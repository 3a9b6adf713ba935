//! The grammar of label selectors: apimachinery's `labels.Parse`.

use super::label::{Operator, Requirement, check_key};
use crate::object::excerpt;

/// The requirements in the order of the text, or what is wrong and where.
pub(super) fn requirements(text: &str) -> Result<Vec<Requirement>, String> {
    let mut tokens = Tokens { text, at: 0 };
    let mut requirements = Vec::new();
    if tokens.peek() == Token::End {
        return Ok(requirements);
    }
    loop {
        requirements.push(requirement(&mut tokens)?);
        match tokens.peek() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") => tokens.skip(),
            _ => return Err(tokens.expected("',' or the end")),
        }
    }
}

fn requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, String> {
    tokens.peek();
    let start = tokens.at;
    let placed = |e| format!("{e} (at byte {start})");
    let negated = tokens.skip_symbol("!");
    let key = tokens.word("a key")?;
    check_key(key).map_err(placed)?;

    let operator = match tokens.peek() {
        _ if negated => Operator::DoesNotExist,
        Token::End | Token::Symbol(",") => Operator::Exists,
        Token::Symbol("=" | "==") => Operator::Equals,
        Token::Symbol("!=") => Operator::NotEquals,
        Token::Symbol(">") => Operator::GreaterThan,
        Token::Symbol("<") => Operator::LessThan,
        Token::Word("in") => Operator::In,
        Token::Word("notin") => Operator::NotIn,
        _ => return Err(tokens.expected("one of = == != > < in notin , or the end")),
    };
    let values = match operator {
        Operator::DoesNotExist | Operator::Exists => Vec::new(),
        Operator::In | Operator::NotIn => {
            tokens.skip();
            values(tokens)?
        }
        _ => {
            tokens.skip();
            match tokens.peek() {
                Token::End | Token::Symbol(",") => vec![String::new()],
                _ => vec![tokens.word("a value")?.to_owned()],
            }
        }
    };
    Requirement::new(key, operator, values).map_err(placed)
}

/// `(a,b,c)`; each of them may be empty.
fn values(tokens: &mut Tokens<'_>) -> Result<Vec<String>, String> {
    if !tokens.skip_symbol("(") {
        return Err(tokens.expected("'('"));
    }
    let mut values = Vec::new();
    loop {
        values.push(match tokens.peek() {
            Token::Word(value) => {
                tokens.skip();
                value.to_owned()
            }
            _ => String::new(),
        });
        if tokens.skip_symbol(")") {
            return Ok(values);
        }
        if !tokens.skip_symbol(",") {
            return Err(tokens.expected("a value, ',' or ')'"));
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Token<'a> {
    Symbol(&'a str),
    /// Anything between symbols and spaces. `in` and `notin` are keys and values too, by their place.
    Word(&'a str),
    End,
}

struct Tokens<'a> {
    text: &'a str,
    /// Where the next token starts, or the spaces before it.
    at: usize,
}

impl<'a> Tokens<'a> {
    fn peek(&mut self) -> Token<'a> {
        let rest = self.text[self.at..].trim_start_matches([' ', '\t', '\r', '\n']);
        self.at = self.text.len() - rest.len();
        for symbol in ["==", "!=", "=", "!", "(", ")", ",", ">", "<"] {
            if rest.starts_with(symbol) {
                return Token::Symbol(&rest[..symbol.len()]);
            }
        }
        match rest.find(['=', '!', '(', ')', ',', '>', '<', ' ', '\t', '\r', '\n']).unwrap_or(rest.len()) {
            0 => Token::End,
            end => Token::Word(&rest[..end]),
        }
    }

    fn skip(&mut self) {
        self.at += match self.peek() {
            Token::Symbol(text) | Token::Word(text) => text.len(),
            Token::End => 0,
        };
    }

    fn skip_symbol(&mut self, symbol: &str) -> bool {
        let found = self.peek() == Token::Symbol(symbol);
        if found {
            self.skip();
        }
        found
    }

    fn word(&mut self, what: &str) -> Result<&'a str, String> {
        match self.peek() {
            Token::Word(word) => {
                self.skip();
                Ok(word)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn expected(&mut self, what: &str) -> String {
        let found = match self.peek() {
            Token::Symbol(text) | Token::Word(text) => excerpt(text),
            Token::End => "the end".to_owned(),
        };
        format!("found {found} at byte {} where {what} was expected", self.at)
    }
}
