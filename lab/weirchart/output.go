// Output of rendered objects: as they are, as JSON for tests, or as plain manifests without the marks of Helm.
package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// parsed returns a document as a JSON value.
func parsed(text string) (map[string]interface{}, error) {
	var object map[string]interface{}
	err := yaml.Unmarshal([]byte(text), &object)
	return object, err
}

func printJSON(texts []string) error {
	objects := []map[string]interface{}{}
	for _, text := range texts {
		object, err := parsed(text)
		if err != nil {
			return err
		}
		objects = append(objects, object)
	}
	text, err := json.Marshal(objects)
	fmt.Println(string(text))
	return err
}

// printPlain prints each object after a line with the name of its file.
func printPlain(texts []string) error {
	for _, text := range texts {
		object, err := parsed(text)
		if err != nil {
			return err
		}
		about := object["metadata"].(map[string]interface{})
		delete(about, "namespace")
		unmark(object)
		plain, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		kind := strings.ToLower(object["kind"].(string))
		if _, end, isLonger := strings.Cut(about["name"].(string), "-"); isLonger {
			kind = end + "-" + kind
		}
		fmt.Printf("# File: %s.yaml\n%s", kind, plain)
	}
	return nil
}

// Labels and annotations that are about the release or the version of the chart.
var marks = []string{"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "checksum/settings"}

// unmark removes them everywhere in a value.
func unmark(value interface{}) {
	switch one := value.(type) {
	case map[string]interface{}:
		for _, mark := range marks {
			delete(one, mark)
		}
		for name, inner := range one {
			unmark(inner)
			if fields, isMap := inner.(map[string]interface{}); isMap && len(fields) == 0 && name == "annotations" {
				delete(one, name)
			}
		}
	case []interface{}:
		for _, inner := range one {
			unmark(inner)
		}
	}
}
