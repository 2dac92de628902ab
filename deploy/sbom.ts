/** The software bill of materials of a build, in CycloneDX 1.6: the packages that the lock file installs for production. */
interface LockedPackage {
  readonly version?: string;
  readonly integrity?: string;
  readonly license?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly link?: boolean;
}

export interface Lock {
  readonly version: string;
  readonly packages: Readonly<Record<string, LockedPackage>>;
}

/** The same for the same lock file and commit. */
export function sbom({ version, packages }: Lock, commit: string) {
  const installed = Object.entries(packages).filter(
    // Bun installs its program for one platform from an optional package, whose version is that of `bun`.
    ([path, each]) => path.startsWith('node_modules/') && !each.dev && !each.optional && !each.link,
  );
  const components = installed.map(([path, each]) => component(nameOf(path), each));
  const service = { type: 'application', name: 'sallyport', version, 'bom-ref': `sallyport@${version}` };
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      component: { ...service, licenses: [{ expression: 'Apache-2.0' }] },
      ...(commit !== '' && { properties: [{ name: 'sallyport:commit', value: commit }] }),
    },
    components,
    dependencies: [
      dependency(service['bom-ref'], Object.keys(packages['']?.dependencies ?? {}), '', packages),
      ...installed.map(([path, each]) =>
        dependency(urlOf(nameOf(path), each), Object.keys(each.dependencies ?? {}), path, packages),
      ),
    ],
  };
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length);
}

function urlOf(name: string, { version }: LockedPackage): string {
  return `pkg:npm/${name.replace('@', '%40')}@${version}`;
}

function component(name: string, each: LockedPackage) {
  const [algorithm, digest = ''] = each.integrity?.split('-') ?? [];
  const hash = { alg: 'SHA-512', content: Buffer.from(digest, 'base64').toString('hex') };
  return {
    type: 'library',
    name,
    version: each.version,
    'bom-ref': urlOf(name, each),
    purl: urlOf(name, each),
    ...(each.license && { licenses: [{ expression: each.license }] }),
    ...(algorithm === 'sha512' && { hashes: [hash] }),
  };
}

/** npm looks for a package in the folder of the one that needs it, then in the folders above. */
function dependency(ref: string, names: readonly string[], path: string, packages: Lock['packages']) {
  const dependsOn = names.flatMap((name) => {
    const own = packages[`${path}/node_modules/${name}`] ?? packages[`node_modules/${name}`];
    return own && !own.link ? urlOf(name, own) : [];
  });
  return { ref, dependsOn };
}
