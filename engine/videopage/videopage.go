// Package videopage is the page that shows video streams: files for browsers, embedded as they are.
package videopage

import "embed"

// Files are index.html and what it refers to as /video/NAME.
//
//go:embed index.html page.css page.js picture.js chart.js
var Files embed.FS
