package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prefillonly/prefillonly/internal/regular"
)

// Settings are what huggingface_hub's variables say. Nothing of its secrets is in an error or a log.
type Settings struct {
	Cache    string   // the directory of the repositories' own
	Endpoint *url.URL // without user and password
	Offline  bool

	// Stall is how long a server may send nothing of a file, and Patience nothing of an answer about one.
	Stall, Patience time.Duration

	user  *url.Userinfo // of the endpoint; nil for none
	token string
	pause time.Duration // before the second try; 0 is the default
}

// The time that huggingface_hub gives a server to send something.
const defaultTimeout = 10 * time.Second

// FromEnvironment reads the variables with getenv.
func FromEnvironment(getenv func(string) string) (s Settings, err error) {
	home, err := homeDir(getenv)
	if err != nil {
		return s, err
	}
	s.Cache = filepath.Join(home, "hub")
	for _, name := range []string{"HUGGINGFACE_HUB_CACHE", "HF_HUB_CACHE"} {
		if dir := expandPath(getenv(name), getenv); dir != "" {
			s.Cache = dir
		}
	}
	if s.Cache, err = filepath.Abs(s.Cache); err != nil {
		return s, err
	}
	s.Offline = isTrue(getenv("HF_HUB_OFFLINE")) || getenv("HF_HUB_OFFLINE") == "" && isTrue(getenv("TRANSFORMERS_OFFLINE"))
	endpoint := getenv("HF_ENDPOINT")
	if endpoint == "" {
		endpoint = "https://huggingface.co"
	}
	if s.Endpoint, s.user, err = parseEndpoint(endpoint); err != nil {
		return s, err
	}
	if s.Stall, err = secondsFromEnv(getenv, "HF_HUB_DOWNLOAD_TIMEOUT"); err == nil {
		s.Patience, err = secondsFromEnv(getenv, "HF_HUB_ETAG_TIMEOUT")
	}
	if err == nil {
		s.token, err = findToken(getenv, home)
	}
	return s, err
}

func isTrue(value string) bool {
	return slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(value))
}

// homeDir is Hugging Face's directory of this user.
func homeDir(getenv func(string) string) (string, error) {
	if home := expandPath(getenv("HF_HOME"), getenv); home != "" {
		return home, nil
	}
	cache := getenv("XDG_CACHE_HOME")
	if cache == "" {
		home := getenv("HOME")
		if home == "" {
			return "", errors.New("unknown Hugging Face cache: set HF_HOME (HOME is not set either)")
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(expandPath(cache, getenv), "huggingface"), nil
}

// expandPath replaces ~ and $VARIABLE, as huggingface_hub does.
func expandPath(path string, getenv func(string) string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		path = getenv("HOME") + path[1:]
	}
	return os.Expand(path, getenv)
}

func secondsFromEnv(getenv func(string) string, name string) (time.Duration, error) {
	text := getenv(name)
	if text == "" {
		return defaultTimeout, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 86400 {
		return 0, fmt.Errorf("invalid %s %.20q: want seconds", name, text)
	}
	if n == 0 {
		return defaultTimeout, nil
	}
	return time.Duration(n) * time.Second, nil
}

// errEndpoint shows nothing of the variable: a password may be anywhere in it.
var errEndpoint = errors.New("invalid HF_ENDPOINT: want an address such as https://huggingface.co or https://user:password@host:8443/path; write / ? # in a user or password as %2F %3F %23")

// parseEndpoint takes the user and password, which may have any characters but those that end them, out of an address.
func parseEndpoint(text string) (*url.URL, *url.Userinfo, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return nil, nil, errEndpoint
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	var user *url.Userinfo
	host := rest[:end]
	if at := strings.LastIndex(host, "@"); at >= 0 {
		name, password, _ := strings.Cut(host[:at], ":")
		user, host = url.UserPassword(unescape(name), unescape(password)), host[at+1:]
	}
	u, err := url.Parse(scheme + "://" + host + rest[end:])
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || strings.Contains(u.Path, "@") {
		return nil, nil, errEndpoint
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	return u, user, nil
}

// unescape is the text that is meant: escaped, or as it is.
func unescape(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}

// findToken is the user's token, or empty.
func findToken(getenv func(string) string, home string) (string, error) {
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} {
		if token := strings.TrimSpace(getenv(name)); token != "" {
			return token, checkToken(name, token)
		}
	}
	if isTrue(getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		return "", nil
	}
	file := expandPath(getenv("HF_TOKEN_PATH"), getenv)
	if file == "" {
		file = filepath.Join(home, "token")
	}
	text, err := regular.ReadFile(file, 10_000)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("the token of the Hugging Face hub: %w", err)
	}
	token := strings.TrimSpace(string(text))
	return token, checkToken(file, token)
}

// checkToken refuses what no header can carry.
func checkToken(where, token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("invalid token of the Hugging Face hub in %s: it has spaces or characters that no token has", where)
	}
	return nil
}
