/** Where the tables of the platform's database are described: each area keeps its own numbered .sql files. */

import { fileURLToPath } from 'node:url'

const folderOf = (path: string) => fileURLToPath(new URL(path, import.meta.url))

/**
 * All folders of migrations. They are applied together in the order of their numbers, whatever services run, so a number
 * is used once over all areas; a file that was published keeps its name and its text.
 */
export const migrationFolders: readonly string[] = [
  // The kit's own tables, and those of agents and operations that the first release made together with them.
  folderOf('../runtime/migrations/'),
  folderOf('./webhooks/migrations/'),
  folderOf('./access/migrations/'),
  folderOf('./vectors/migrations/'),
  folderOf('./records/migrations/'),
  folderOf('./runs/migrations/'),
]
