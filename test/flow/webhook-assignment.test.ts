/** Targets and partitions on embedded engines. */

import { describeAssignment } from './webhook-assignment.promises.ts'

describeAssignment('embedded', async () => ({}))
