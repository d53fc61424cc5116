/** Titles of the tour's documents: headings of Markdown, not lines of its code, comments or front matter. */

import { expect, test } from 'vitest'
import { titleOf } from '../../../../cli/commands/tour-documents.ts'

test.each([
  ['Words before.\n\n## Second level ##\n\n# First', 'Second level'],
  ['\ufeff# Behind a mark\r\n', 'Behind a mark'],
  ['# `code` and [a link](http://x) ![image](y)', 'code and a link'],
  ['No heading: #tag\n', 'docs/a.md'],
  ['```sh\n# install it\nnpm ci\n```\n# Real title\n', 'Real title'],
  ['~~~\n# code\n```\n# more code\n~~~\n# Real title\n', 'Real title'],
  ['````md\n```sh\n# code\n```\n# code\n````\n# Real title\n', 'Real title'],
  ['```\n# code\n```sh\n# code\n```\n# Real title\n', 'Real title'],
  ['```\n# code\n`````\n# Real title\n', 'Real title'],
  ['- a list\n\n  ```sh\n  # code\n  ```\n\n# Real title\n', 'Real title'],
  ['```code``` in a line\n\n# Real title\n\n```sh\n# code\n```\n', 'Real title'],
  ['```sh\r\n# code\r\n```\r\n# Real title\r\n', 'Real title'],
  ['```sh\n# never closed\n', 'docs/a.md'],
  ['<!--\n# Copyright\n-->\n# Real title\n', 'Real title'],
  ['---\n# a comment\ntags: [a]\n---\n# Real title\n', 'Real title'],
  ['\ufeff--- \r\ntags: [a]\r\n---\r\n# Real title\r\n', 'Real title'],
  ['---\n---\n# Real title\n\n---\n\n# Later\n', 'Real title'],
])('%j is called %s', (text, title) => {
  expect(titleOf(text, 'docs/a.md')).toBe(title)
})
