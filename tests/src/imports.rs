//! The imports between the files of a crate, from their `use` declarations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::{Attribute, File, Item, UseTree};

/// The imports of a crate between its files. Paths are module paths, `run::folder::lock`; the crate's root is the empty path. Tests are left out, and so are
/// imports between a module and its own submodules.
#[derive(Debug, Default)]
pub struct Imports {
    /// The imported modules, by importing module.
    pub edges: BTreeMap<Module, BTreeSet<Module>>,
}

/// A module's path.
pub type Module = Vec<String>;

/// Modules that import each other in a circle.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circle {
    /// The module whose children they are.
    pub parent: Module,
    /// The children.
    pub modules: Vec<String>,
    /// The number of children with submodules.
    pub folders: usize,
    /// One import for each edge between two of them.
    pub imports: Vec<String>,
}

impl Imports {
    /// Reads a crate from its root file.
    ///
    /// # Panics
    /// If a file cannot be read or parsed.
    #[must_use]
    pub fn of_crate(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        read(root, &[], true, &mut files);
        let uses: BTreeMap<Module, Vec<Use>> = files
            .iter()
            .map(|(module, file)| (module.clone(), uses(file)))
            .collect();
        let mut imports = Self::default();
        for (module, paths) in &uses {
            let mut targets = BTreeSet::new();
            for (_, path) in paths {
                if let Some(target) = resolve(module, path, &uses, 0)
                    && !is_own(module, &target)
                {
                    targets.insert(target);
                }
            }
            imports.edges.insert(module.clone(), targets);
        }
        imports
    }

    /// The circles among the children of each module, where a child includes its submodules.
    #[must_use]
    pub fn circles(&self) -> Vec<Circle> {
        let mut parents: BTreeSet<&[String]> = BTreeSet::new();
        for module in self.edges.keys() {
            parents.extend((0..module.len()).map(|length| &module[..length]));
        }
        parents
            .into_iter()
            .flat_map(|parent| self.circles_in(parent))
            .collect()
    }

    fn circles_in(&self, parent: &[String]) -> Vec<Circle> {
        let child = |module: &Module| -> Option<String> {
            module
                .starts_with(parent)
                .then(|| module.get(parent.len()).cloned())?
        };
        let mut edges: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (from, targets) in &self.edges {
            for to in targets {
                if let (Some(a), Some(b)) = (child(from), child(to))
                    && a != b
                {
                    let import = format!("{} imports {}", from.join("::"), to.join("::"));
                    edges.entry(a).or_default().entry(b).or_insert(import);
                }
            }
        }
        let reachable = |from: &String| -> BTreeSet<String> {
            let (mut seen, mut pending) = (BTreeSet::new(), vec![from.clone()]);
            while let Some(next) = pending.pop() {
                for to in edges.get(&next).into_iter().flat_map(BTreeMap::keys) {
                    if seen.insert(to.clone()) {
                        pending.push(to.clone());
                    }
                }
            }
            seen
        };
        let reach: BTreeMap<&String, BTreeSet<String>> =
            edges.keys().map(|from| (from, reachable(from))).collect();
        let mut circles = BTreeSet::new();
        for (from, targets) in &reach {
            if !targets.contains(*from) {
                continue;
            }
            let members: Vec<String> = targets
                .iter()
                .filter(|to| reach.get(to).is_some_and(|back| back.contains(*from)))
                .cloned()
                .collect();
            let folders = members
                .iter()
                .filter(|name| {
                    self.edges.keys().any(|module| {
                        module.len() > parent.len() + 1 && child(module).as_ref() == Some(name)
                    })
                })
                .count();
            let imports = members
                .iter()
                .flat_map(|a| edges.get(a).into_iter().flatten())
                .filter(|(b, _)| members.contains(b))
                .map(|(_, import)| import.clone())
                .collect();
            circles.insert(Circle {
                parent: parent.to_vec(),
                modules: members,
                folders,
                imports,
            });
        }
        circles.into_iter().collect()
    }
}

/// Whether one module contains the other.
fn is_own(a: &[String], b: &[String]) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

/// Reads the file of `module` and those of its submodules. `owns_folder`: whether submodules are beside the file, as for `mod.rs` and a crate's root.
fn read(path: &Path, module: &[String], owns_folder: bool, files: &mut BTreeMap<Module, File>) {
    let source =
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file =
        syn::parse_file(&source).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let folder = if owns_folder {
        path.parent().expect("a file lies in a folder").to_owned()
    } else {
        path.with_extension("")
    };
    for item in &file.items {
        let Item::Mod(declared) = item else { continue };
        if declared.content.is_some() || is_test(&declared.attrs) {
            continue;
        }
        let name = declared.ident.to_string();
        let mut child = module.to_vec();
        child.push(name.clone());
        let (flat, nested) = (
            folder.join(format!("{name}.rs")),
            folder.join(&name).join("mod.rs"),
        );
        if nested.is_file() {
            read(&nested, &child, true, files);
        } else if flat.is_file() {
            read(&flat, &child, false, files);
        }
    }
    files.insert(module.to_vec(), file);
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Ident>()
                .is_ok_and(|word| word == "test")
    })
}

/// A `use` declaration: the name that it imports (`*` for all), and its path.
type Use = (String, Vec<String>);

fn uses(file: &File) -> Vec<Use> {
    let mut uses = Vec::new();
    for item in &file.items {
        if let Item::Use(declaration) = item
            && !is_test(&declaration.attrs)
        {
            flatten(&declaration.tree, &mut Vec::new(), &mut uses);
        }
    }
    uses
}

fn flatten(tree: &UseTree, prefix: &mut Vec<String>, uses: &mut Vec<Use>) {
    let path = |name: &str| [prefix.as_slice(), &[name.to_owned()]].concat();
    match tree {
        UseTree::Path(tree) => {
            prefix.push(tree.ident.to_string());
            flatten(&tree.tree, prefix, uses);
            prefix.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, uses);
            }
        }
        UseTree::Name(tree) => {
            let name = tree.ident.to_string();
            uses.push((name.clone(), path(&name)));
        }
        UseTree::Rename(tree) => {
            uses.push((tree.rename.to_string(), path(&tree.ident.to_string())));
        }
        UseTree::Glob(_) => uses.push(("*".to_owned(), prefix.clone())),
    }
}

/// Maximum re-exports that are followed; more would be a circle of re-exports.
const MAX_REEXPORTS: usize = 8;

/// The module of this crate that defines the item at a path: the longest prefix that is a module, after following re-exports. `None` for other crates.
fn resolve(
    module: &[String],
    path: &[String],
    uses: &BTreeMap<Module, Vec<Use>>,
    depth: usize,
) -> Option<Module> {
    let mut at: Module = module.to_vec();
    let mut rest = path;
    let mut rooted = false;
    while let [first, after @ ..] = rest {
        match first.as_str() {
            "crate" => at = Vec::new(),
            "self" => {}
            "super" => {
                at.pop();
            }
            _ => break,
        }
        rooted = true;
        rest = after;
    }
    let child = |at: &Module, name: &String| [at.as_slice(), std::slice::from_ref(name)].concat();
    // Without a root, the first name is a submodule or another crate.
    if !rooted
        && !rest
            .first()
            .is_some_and(|name| uses.contains_key(&child(&at, name)))
    {
        return None;
    }
    while let [name, after @ ..] = rest {
        let next = child(&at, name);
        if !uses.contains_key(&next) {
            break;
        }
        at = next;
        rest = after;
    }
    let exported = rest.first().and_then(|name| {
        let found = uses
            .get(&at)?
            .iter()
            .find(|(imported, _)| imported == name)?;
        (depth < MAX_REEXPORTS && at != module)
            .then(|| resolve(&at, &found.1, uses, depth + 1))
            .flatten()
    });
    Some(exported.unwrap_or(at))
}
