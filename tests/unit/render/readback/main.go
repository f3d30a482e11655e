package main

import (
	"fmt"
	"io"
	"os"

	"sigs.k8s.io/yaml"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	out, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		panic(err)
	}
	fmt.Print(string(out))
}
