/** Ids and filters in the addresses of the console: encoded once, decoded once, by one file. */

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { localTime, momentOf } from '../../../console/src/data/format.ts'
import { base, idIn, linkTo } from '../../../console/src/data/links.ts'

const ids = [
  ...[
    'scout',
    'a%2Fb',
    'a%252Fb',
    '50%',
    '%',
    '%2E%2E',
    'a b',
    'a+b',
    'a/b',
    '/',
    '?x=1',
    '#x',
    'é',
    '~',
    '"<>',
  ],
  ...['https://example.com/a%20b', '.', '..', '...', '~.', '~..', '~~..', '..~', '\\', 'a\nb', '\u202e'],
]

it('gives an id back as it was, through whatever a browser does to an address', () => {
  for (const id of ids) {
    const { pathname, search, hash } = new URL(base + linkTo('/requests', id), 'http://here')
    expect([pathname.split('/').length, search, hash], id).toEqual([4, '', ''])
    expect(idIn(pathname)).toBe(id)
    expect(idIn(`${pathname}/`)).toBe(id)
  }
})

it('takes an address that nobody encoded as it is', () => {
  expect(['/requests/50%', '/requests/%zz', '/requests', '/'].map((path) => idIn(base + path))).toEqual([
    ...['50%', '%zz', '', ''],
  ])
})

it('gives filters back as they were, and leaves empty ones out', () => {
  for (const id of ids) {
    const link = linkTo('/search', null, { in: 'posts', like: id, limit: 3, where: '' })
    const { pathname, searchParams, hash } = new URL(base + link, 'http://here')
    expect([pathname, [...searchParams], hash]).toEqual([
      '/console/search',
      [
        ['in', 'posts'],
        ['like', id],
        ['limit', '3'],
      ],
      '',
    ])
  }
  expect([linkTo('/agents'), linkTo('/goals', null, { q: '' }), linkTo('/notes', 7)]).toEqual([
    ...['/agents', '/goals', '/notes/7'],
  ])
})

it('is the only way from ids to addresses and back', () => {
  const folder = join(import.meta.dirname, '../../../console/src')
  const files = readdirSync(folder, { recursive: true })
    .map(String)
    .filter((name) => /\.tsx?$/.test(name) && !['schema.d.ts', join('data', 'links.ts')].includes(name))
  const others = /\b(en|de)codeURI|\buse(Params|SearchParams|Search)\(|\b(href|to)=\{`|\bnavigate\(`/
  const found = files.filter((name) => others.test(readFileSync(join(folder, name), 'utf8')))
  // They set the filters of the address that is there.
  expect(found).toEqual([join('data', 'address.ts')])
})

it('shows a time that no clock shows as unknown', () => {
  for (const at of [1e300, 1e20, Number.NaN, Number.POSITIVE_INFINITY, 'soon', '']) {
    expect([momentOf(at), localTime(at)]).toEqual([null, 'no known time'])
  }
  expect(momentOf('2026-11-25T10:00:00.000Z')?.getTime()).toBe(Date.UTC(2026, 10, 25, 10))
})
