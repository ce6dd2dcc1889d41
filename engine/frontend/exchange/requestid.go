package exchange

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// requestID returns the client's id if it is fit for headers and logs, and else a new UUID.
func requestID(offered string) string {
	if offered == "" || len(offered) > 128 {
		return newUUID(time.Now())
	}
	for i := range len(offered) {
		if offered[i] <= ' ' || offered[i] > '~' || offered[i] == '"' || offered[i] == '\\' {
			return newUUID(time.Now())
		}
	}
	return offered
}

// newUUID draws a version 7 UUID (RFC 9562, section 5.7): milliseconds, then random bits.
func newUUID(now time.Time) string {
	var raw [16]byte
	rand.Read(raw[6:])
	var stamp [8]byte
	binary.BigEndian.PutUint64(stamp[:], uint64(now.UnixMilli()))
	copy(raw[:6], stamp[2:])
	raw[6] = raw[6]&0x0f | 0x70
	raw[8] = raw[8]&0x3f | 0x80
	var text [36]byte
	hex.Encode(text[0:8], raw[0:4])
	hex.Encode(text[9:13], raw[4:6])
	hex.Encode(text[14:18], raw[6:8])
	hex.Encode(text[19:23], raw[8:10])
	hex.Encode(text[24:36], raw[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
