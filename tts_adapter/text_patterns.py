"""Patterns of the text filter: what markdown and markup look like at one place of a streamed text.

Every pattern is tried with partial matching, so each must need one more character than it drops wherever that character
could change the decision. All are bounded: no pattern can hold back text without end.
"""

import regex

# At the first mark of a line.
FENCE = regex.compile(r"(?:`{3,8}|~{3,8})[^\n`~]{0,80}(?=\n)")
RULE_LINE = regex.compile(r"(?:[-=*_|:+][ \t]{0,20}){3,120}(?=\n)")
HEADER = regex.compile(r"#{1,6}[ \t]{1,8}(?=[^ \t\n])")
QUOTE = regex.compile(r">(?=[ \t>])")
BULLET = regex.compile(r"[-*+•‣◦▪●○–][ \t]{1,20}(?=[^ \t\n])")
CHECKBOX = regex.compile(r"\[[ xX]\](?=[ \t])")

# Anywhere.
CELL_EDGE = regex.compile(r"[ \t]{0,80}\|[ \t]{0,80}(?=[^ \t])")
STARS = regex.compile(r"\*{1,32}(?=[^*])")
UNDERSCORES = regex.compile(r"_{1,32}(?=[^_])")
TILDES = regex.compile(r"~{1,32}(?=[^~])")
BACKTICKS = regex.compile(r"`{1,32}(?=[^`])")
ESCAPE = regex.compile(r"\\[!-/:-@\[-`{-~]")
ENTITY = regex.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,30});")
IMAGE = regex.compile(r"!\[")
LINK_TARGET = regex.compile(
    r"\]\((?P<url>[^()\s]{0,400}(?:\([^()\s]{0,100}\)[^()\s]{0,100})?)(?:[ \t]{1,4}\"[^\"\n]{0,200}\")?\)"
)
URL_LIKE = regex.compile(r"(?=.*\p{L})(?:[a-zA-Z][a-zA-Z0-9+.-]*:|[#/.]|.*[./])")
SCHEME = regex.compile(r"(?:https?|ftp)://(?=[^\s])", regex.IGNORECASE)
URL_TAIL = regex.compile(r"/(?=[\s.,;:!?)\]}>\"'*])")

# `<` opens markup only where the whole of it is well formed; otherwise it is a less-than sign.
SPECIAL_TOKEN = regex.compile(r"<\|[^|<>\n]{1,60}\|>")
COMMENT = regex.compile(r"<!--(?:[^-]|-(?!->)){0,400}-->")
AUTOLINK = regex.compile(
    r"<(?P<target>(?:(?:https?|ftp)://[^\s<>]{1,300}|[\w.+-]{1,64}@[\w.-]{1,200}))>", regex.IGNORECASE
)
TAG = regex.compile(
    r"""<(?:/[A-Za-z][\w:.-]{0,60}\s{0,4}
        |[A-Za-z][\w:.-]{0,60}
         (?:\s{1,4}[A-Za-z_:][\w:.-]{0,60}\s{0,2}=\s{0,2}(?:"[^"<>]{0,200}"|'[^'<>]{0,200}'|[^\s"'<>=`]{1,100})){0,12}
         \s{0,4}/?)>""",
    regex.VERBOSE,
)
SEPARATING_TAG = regex.compile(r"</?(?:br|p|div|li|ul|ol|tr|td|th|table|h[1-6]|hr|blockquote|pre)\b", regex.IGNORECASE)

SPACE = regex.compile(r"[ \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
LINE_END = "\n\u0085\u2028\u2029\x0b\x0c"
CONTROL = regex.compile(
    r"[\x00-\x08\x0e-\x1f\r\x7f-\x84\x86-\x9f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff0-\uffff"
    r"\ud800-\udfff\ue000-\uf8ff\U000e0000-\U000e0fff\U000f0000-\U0010ffff]+"
)
JOINERS = "\u200c\u200d"
# Pictures, arrows, boxes and bullets; not the signs a person reads out (degree, copyright, numero, circled digits).
PICTURE = regex.compile(
    r"(?:(?!\p{N})[\p{Extended_Pictographic}--©®™‼⁉ℹⓂ㊗㊙]|[\p{Emoji_Modifier}\p{Regional_Indicator}\ufe0e\ufe0f\u20e3]"
    r"|(?=[\p{So}\p{Sm}])[\u2190-\u21ff\u2300-\u23ff\u2500-\u27bf\u27f0-\u297f\u2b00-\u2bff\U0001f000-\U0001faff])+",
    regex.V1,
)
WORD = regex.compile(r"[\p{L}\p{N}[\p{M}--[\ufe0e\ufe0f\u20e3]]]+", regex.V1)
# Scripts without spaces between words: there, emphasis marks inside a word do mark emphasis.
UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")
