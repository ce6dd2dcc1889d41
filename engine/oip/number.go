package oip

import "strconv"

// decimal is a number as it stands in JSON.
type decimal struct {
	text     []byte
	mantissa uint64 // of its digits, if they are no more than maxDigits
	digits   int    // of the mantissa, leading zeros aside
	exponent int    // of ten
	negative bool
	whole    bool // it has neither a point nor an exponent
}

// maxDigits is how many digits a uint64 always holds.
const maxDigits = 19

// number reads a number as it stands.
func (s *scanner) number() (d decimal, err error) {
	s.peekByte()
	b := s.data[s.at:]
	i := 0
	if d.negative = i < len(b) && b[i] == '-'; d.negative {
		i++
	}
	whole := i
	i = d.addDigits(b, i)
	if i == whole || b[whole] == '0' && i > whole+1 {
		return d, s.syntaxError("%s, want a number", s.describeNext())
	}
	d.whole = true
	if i < len(b) && b[i] == '.' {
		from := i + 1
		if i = d.addDigits(b, from); i == from {
			return d, s.syntaxError("%s, want a number", s.describeNext())
		}
		d.exponent, d.whole = from-i, false
	}
	if i < len(b) && b[i]|' ' == 'e' {
		power, end := powerOf(b, i+1)
		if end < 0 {
			return d, s.syntaxError("%s, want a number", s.describeNext())
		}
		d.exponent += power
		i, d.whole = end, false
	}
	if i < len(b) && isWord[b[i]] {
		return d, s.syntaxError("%s, want a number", s.describeNext())
	}
	d.text = b[:i]
	s.at += i
	return d, nil
}

// addDigits adds the digits that begin at i to the mantissa, and returns where they end.
func (d *decimal) addDigits(b []byte, i int) int {
	for ; i < len(b); i++ {
		c := b[i] - '0'
		if c > 9 {
			break
		}
		if d.digits > 0 || c > 0 {
			d.digits++
		}
		d.mantissa = 10*d.mantissa + uint64(c)
	}
	return i
}

// maxPower bounds powers of ten: what is beyond it is beyond all types.
const maxPower = 1 << 20

// powerOf reads an exponent, and returns where it ends; -1 if there is none.
func powerOf(b []byte, i int) (power, end int) {
	negative := i < len(b) && b[i] == '-'
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		i++
	}
	from := i
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		power = min(10*power+int(b[i]-'0'), maxPower)
	}
	if i == from {
		return 0, -1
	}
	if negative {
		power = -power
	}
	return power, i
}

// isWord are the bytes that cannot stand right behind a number.
var isWord = func() (is [256]bool) {
	for c := range is {
		is[c] = '0' <= c && c <= '9' || 'a' <= c|' ' && c|' ' <= 'z' || c == '.' || c == '-' || c == '+'
	}
	return is
}()

// powers are those of ten that FP64 holds exactly.
var powers = func() (list [23]float64) {
	list[0] = 1
	for i := 1; i < len(list); i++ {
		list[i] = 10 * list[i-1]
	}
	return list
}()

// roundToFloat64 is the number rounded to FP64. A mantissa and a power that FP64 holds exactly have a rounded product or
// quotient (Clinger, 1990); strconv does the others.
func (d *decimal) roundToFloat64() (float64, error) {
	if d.digits > maxDigits || d.mantissa >= 1<<53 || d.exponent >= len(powers) || d.exponent <= -len(powers) {
		return strconv.ParseFloat(string(d.text), 64)
	}
	v := float64(d.mantissa)
	if d.exponent < 0 {
		v /= powers[-d.exponent]
	} else {
		v *= powers[d.exponent]
	}
	if d.negative {
		v = -v
	}
	return v, nil
}
