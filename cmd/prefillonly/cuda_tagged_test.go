//go:build cuda

package main

// noDevice is in what serve says when there is no GPU.
const noDevice = "no device"
