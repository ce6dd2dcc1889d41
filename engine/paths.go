package engine

import "regexp"

// directories are those of an absolute path in a text.
var directories = regexp.MustCompile(`(^|[\s"'` + "`" + `(=\[,:])/(?:[^\s/:"']+/)+`)

// HidePaths is a text for clients, whom the server's directories do not concern: of a path its last part stays.
func HidePaths(text string) string { return directories.ReplaceAllString(text, "$1") }
