import { expect, it } from 'vitest'
import { parseStoredName, storedName } from '#engines/vectors/collections.ts'

it('stores each making of a name under a name of its own, and the four under theirs', () => {
  expect(storedName('posts', null)).toBe('posts')
  expect(storedName('tea-notes', '0a1b2c3d4e')).toBe('tea-notes~0a1b2c3d4e')
  expect(parseStoredName('posts')).toEqual({ name: 'posts', making: null })
  expect(parseStoredName('tea-notes~0a1b2c3d4e')).toEqual({ name: 'tea-notes', making: '0a1b2c3d4e' })
})

it.each([
  'tea',
  'tea~',
  '~0a1b2c3d4e',
  'Tea~0a1b2c3d4e',
  'tea~0A1B2C3D4E',
  'tea~0a1b2c3d4e1',
  'tea/x',
  'tea~0a1b2c3d4e\n',
])('knows %j as no stored name', (name) => expect(parseStoredName(name)).toBeNull())
