// Writes engine/tokenizer/testdata/patterns.json: patterns of JSON schemas, and which texts match them by this engine of ECMA-262.
// A pattern that is invalid with the flag u, which JSON Schema recommends, is read without it; null is of one that is invalid then, too.
import { writeFileSync } from "node:fs";

const texts = ["", "a", "b", "c", "q", "A", "Z", "z", "Q", "E", "0", "5", "9", "_", "-", "&", "~", "[", "]", "[]", "a]", "q]", ":]", "^", "$", ".", "/", "#", " ", "\t", "\n", "\r", "\b", "\u0085", "\u00a0",
    "\ufeff", "\u2028", "é", "É", "ß", "٤", "Ⅷ", "Ω", "中", "😀", "aa", "ab", "ba", "aaa", "abc", "a b", "a-b", "a&b", "a&&b", "a~~b", "{", "}", "{a}", "a{", "a{,5}", "x{,5}", "AzZ", "Aa", "a1", "1a", "pN", "p", "N", "5a5",
    "a\nb", "aaaa", "aaaaa", "abab", "A1", "cat", "xcaty", "category", "dog", "hotdog", "k", "QaE", "\\", "\"", "ℵ"];

const patterns = ["", "a", "^a$", "^a", "a$", "^a|b$", "^(a|b)$", "^(?:a|b|)$", "^$", "^^a", "a$$", "(^a)", "(a$)", "a^b", "a$b", "|a", "a||b", "^a{2}$", "^a{2,}$", "^a{2,3}$", "^a{2,3}?$", "^a*?$", "^a+?$", "^a??$", "^(ab)+$",
    "a++", "a*+", "a?+", "a**", "a{2}{3}", "a{2}+", "*a", "+", "?", "^*", "(*a)", "(|*)", "{2}", "a{3,2}", "^a{,5}$", "^x{,5}$", "^{a}$", "^a{$", "^\\{a\\}$", "^}$", "^]$", "^a{}$", "(", ")", "(a", "a)", "[", "[a", "[b-a]", "\\",
    "^[[:alpha:]]$", "^[:alpha:]$", "^[[:^alpha:]]$", "^[a&&b]$", "^[a&&[b]]$", "^[a~~b]$", "^[a--b]$", "^[--a]$", "^[a-]$", "^[-a]$", "^[^-a]$", "^[a-c]$", "^[^a-c]$", "^[[]$", "^[]]$", "^[\\]]$", "^[[a]]$", "^[^[a]]$", "^[]$", "^[^]$",
    "^[a\\-c]$", "^[a\\]c]$", "^[\\^a]$", "^[^^]$", "^[$.]$", "^[\\w-.]$", "^[\\w-a]$", "^[a-\\d]$", "^[\\d-\\w]$", "^[\\b]$", "\\bcat\\b", "\\Bcat", "^[#]$", "^#$", "^[ ]$", "^a b$", "^[&]$", "^[~]$", "^a&&b$", "^-$",
    "(?i)a", "(?i:a)", "(?-i:a)", "(?x) a", "(?s).", "(?P<n>a)", "^(?<n>a)$", "^(?<n1>a)b$", "(?<1n>a)", "(?<n>a)\\k<n>", "(a)\\1", "(?=a)a", "(?!a)b", "(?<=a)b", "(?<!a)b", "(?>a)", "(?#x)a", "(?a)",
    "\\Aa", "a\\z", "a\\Z", "\\Ga", "\\Qa\\E", "\\a", "\\e", "\\h", "\\R", "\\X", "\\<a", "^\\/$", "^\\-$", "^\\\"$", "^\\_$", "^\\ $", "^\\#$", "^\\&$", "^\\~$", "^\\.$", "^\\^$", "^\\$$", "^\\[\\]$", "^\\\\$",
    "^\\d$", "^\\D$", "^\\w$", "^\\W$", "^\\s$", "^\\S$", "^[\\d]$", "^[^\\d]$", "^[\\D]$", "^[^\\D]$", "^[\\s]$", "^[^\\s]$", "^[\\S]$", "^[^\\S]$", "^[\\w]$", "^[^\\w]$", "^[^\\W]$", "^[\\da-c]$", "^[^\\da-c]$", "^\\d+$", "^a\\d$",
    "^\\t$", "^\\n$", "^\\r$", "^\\v$", "^\\f$", "^\\0$", "^\\01$", "\\1", "\\9", "^\\x41$", "\\x4", "\\xg", "^\\u0041$", "^\\u00e9$", "^\\u{1F600}$", "^\\ud83d\\ude00$", "\\ud83d", "\\u", "\\u{110000}", "\\u12", "^\\cI$", "\\c", "\\c1",
    "^\\p{L}$", "^\\p{Lu}$", "^\\P{L}$", "^\\p{Letter}$", "^\\p{gc=Lu}$", "^\\p{General_Category=Decimal_Number}$", "^\\p{Nd}$", "^\\p{N}$", "^\\p{Script=Greek}$", "^\\p{sc=Han}$", "^\\p{Alphabetic}$", "^\\p{ASCII}$", "^\\p{Any}$", "^\\p{White_Space}$", "^[\\p{L}\\d]$", "^[^\\p{L}]$",
    "^\\pN$", "^\\pL$", "\\PL", "^\\p{Greek}$", "^\\p{greek}$", "\\p{l}", "\\p{Nonsense}", "\\p{^L}", "^\\p{sc=Nonsense}$", "^.$", "^..$", "^.*$", "^a.b$", "^😀$", "^[😀]$", "^[é-ü]$", "cat|dog", "^cat|dog$", "^(cat|dog)$", "^cat$|^dog$", "^(?:cat|dog)+$", "^a\\.?$"];

const judged = patterns.map((pattern) => {
    for (const flags of ["u", ""]) {
        try {
            const regex = new RegExp(pattern, flags);
            return { pattern, flags, matches: texts.map((text, i) => (regex.test(text) ? i : -1)).filter((i) => i >= 0) };
        } catch {}
    }
    return { pattern, matches: null };
});
const lines = judged.map((j) => "  " + JSON.stringify(j));
writeFileSync(new URL("../engine/tokenizer/testdata/patterns.json", import.meta.url), `{"texts": ${JSON.stringify(texts)},\n "patterns": [\n${lines.join(",\n")}\n]}\n`);
